"""Names and texts as the SQL of engines takes them: always quoted, so that any word is a name."""


def in_backticks(*parts: str) -> str:
    """The dotted name, for Spark and Databricks."""
    return _dotted(parts, "`")


def in_quotes(*parts: str) -> str:
    """The dotted name, for Trino and Snowflake, which tells upper from lower case then."""
    return _dotted(parts, '"')


def text(value: str) -> str:
    """A text in standard SQL."""
    return "'" + value.replace("'", "''") + "'"


def spark_text(value: str) -> str:
    """A text for Spark and Databricks, where a backslash escapes and two quotes part two texts."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _dotted(parts: tuple[str, ...], quote: str) -> str:
    return ".".join(f"{quote}{part.replace(quote, 2 * quote)}{quote}" for part in parts)
