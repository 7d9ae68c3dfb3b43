"""Our column names against the lists of names that engines keep for themselves."""

import pytest

from lakestream_spark.table.columns import ICEBERG_SCHEMA

NAMES = sorted(ICEBERG_SCHEMA.column_names)

ICEBERG = {
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_row_id",
    "_last_updated_sequence_number",
    "_change_type",
    "_change_ordinal",
    "_commit_snapshot_id",
    "file_path",
    "pos",
    "row",
}
DELTA = {
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
    "__is_cdc",
    "_metadata",
    "_databricks_internal",
    "_row-id-col",
    "_row-commit-version-col",
    "__delta_internal_path",
    "__delta_internal_row_index",
    "__delta_internal_is_row_deleted",
    "row_index",
}
SPARK = {"_metadata", "_corrupt_record", "_tmp_metadata_row_index", "__metadata_col"}
BIGQUERY_PREFIXES = (
    "_table_",
    "_file_",
    "_partition",
    "_row_timestamp",
    "__root__",
    "_colidentifier",
    "_change_sequence_number",
    "_change_type",
    "_change_timestamp",
)


@pytest.mark.parametrize("reserved", [ICEBERG, DELTA, SPARK], ids=["Iceberg", "Delta", "Spark"])
def test_no_column_has_a_name_that_an_engine_keeps_for_itself(reserved: set[str]) -> None:
    own = {name.lower() for name in NAMES if "." not in name}
    assert not own & {name.lower() for name in reserved}


@pytest.mark.parametrize("name", [name for name in NAMES if "." not in name])
def test_no_column_starts_as_bigquery_forbids_or_has_its_length_or_letters(name: str) -> None:
    assert not name.lower().startswith(BIGQUERY_PREFIXES)
    assert len(name) <= 300
    assert name.isascii()
    assert name.replace("_", "").isalnum()


def test_every_column_has_a_comment() -> None:
    assert all(field.doc for field in ICEBERG_SCHEMA.fields)
    assert ICEBERG_SCHEMA.find_field("__headers.element.key").doc
