from tests.support.table_fixtures import files, metadata, tables, topic

__all__ = ["files", "metadata", "tables", "topic"]
