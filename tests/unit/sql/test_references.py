"""What a query names: topics, and nothing that only looks like one."""

from collections.abc import Iterator

import duckdb
import pytest

from lakestream_spark.core.errors import Rejected
from lakestream_spark.sql.references import references


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT 1", set()),
        ("FROM orders", {"orders"}),
        ("SELECT * FROM orders a JOIN streams.payments b USING (id)", {"orders", "payments"}),
        ('SELECT (SELECT max(x) FROM "a.b-c") FROM range(3)', {"a.b-c"}),
        ("WITH t AS (FROM orders) SELECT * FROM t", {"orders", "t"}),
        ("SELECT * FROM orders UNION ALL SELECT * FROM payments -- FROM x", {"orders", "payments"}),
        ("DESCRIBE orders", {"orders"}),
        ("SUMMARIZE orders;", {"orders"}),
        ("SELECT 'FROM orders'", set()),
    ],
)
def test_names_are_found_wherever_they_are(
    connection: duckdb.DuckDBPyConnection, query: str, names: set[str]
) -> None:
    found = references(connection, query)
    assert {each.name for each in found.tables} == names
    assert not found.lists_tables


def test_a_name_is_kept_with_its_schema_and_catalog(connection: duckdb.DuckDBPyConnection) -> None:
    found = references(connection, "FROM orders, streams.orders, lake.streams.orders")
    assert found.tables == (
        ("", "", "orders"),
        ("", "streams", "orders"),
        ("lake", "streams", "orders"),
    )
    assert references(connection, "SHOW TABLES").lists_tables


@pytest.mark.parametrize(
    "query",
    [
        "",
        "-- nothing",
        "SELECT 1; SELECT 2",
        "CREATE TABLE t AS SELECT 1",
        "DROP TABLE orders",
        "DELETE FROM orders",
        "SET threads = 1",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "EXPORT DATABASE 'x'",
    ],
)
def test_only_one_select_passes(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    with pytest.raises(Rejected, match="answers one SELECT and changes nothing"):
        references(connection, query)
