"""What a query names, as DuckDB's own parser tells it. Only a single SELECT passes."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb

from lakestream_spark.core.errors import Rejected


class Reference(NamedTuple):
    """A table as the query writes it; parts that it leaves out are empty."""

    catalog: str
    schema: str
    name: str


class References(NamedTuple):
    """The tables that a query names, and whether it asks which tables there are."""

    tables: tuple[Reference, ...]
    lists_tables: bool


def references(connection: duckdb.DuckDBPyConnection, query: str) -> References:
    """Raises `Rejected` for what is no SQL, and for all that is not one SELECT."""
    try:
        kinds = [each.type for each in connection.extract_statements(query)]
    except duckdb.Error as error:
        raise Rejected(sentence_of(error)) from None
    if kinds != [duckdb.StatementType.SELECT]:
        raise Rejected(
            "`lakestream sql` answers one SELECT and changes nothing: records come by "
            "`lakestream produce`, rows are erased by Spark"
        )
    (text,) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone() or ("{}",)
    nodes = list(_nodes(json.loads(text)))
    tables = (
        Reference(each["catalog_name"], each["schema_name"], each["table_name"])
        for each in nodes
        if each["type"] == "BASE_TABLE"
    )
    shows = any(
        each["type"] == "SHOW_REF" and each["show_type"] == "SHOW_UNQUALIFIED" for each in nodes
    )
    return References(tuple(dict.fromkeys(tables)), shows)


def sentence_of(error: Exception) -> str:
    """What DuckDB says, without its drawing of the place."""
    lines = str(error).partition("\nLINE ")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if isinstance(tree.get("type"), str):
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _nodes(each)
