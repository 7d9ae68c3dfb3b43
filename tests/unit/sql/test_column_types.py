"""Columns of Iceberg as DuckDB's."""

import duckdb
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    FixedType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
)

from lakestream_spark.core.errors import Rejected
from lakestream_spark.sql.column_types import duckdb_type, schema_argument
from lakestream_spark.table.columns import ICEBERG_SCHEMA

NESTED = StructType(
    NestedField(1, 'a "b"', DecimalType(10, 2)),
    NestedField(2, "c", MapType(3, StringType(), 4, ListType(5, BooleanType()))),
    NestedField(6, "d", FixedType(4)),
)


def test_nested_types_are_written_as_duckdb_reads_them() -> None:
    written = duckdb_type(NESTED)
    assert written == 'STRUCT("a ""b""" DECIMAL(10, 2), "c" MAP(VARCHAR, BOOLEAN[]), "d" BLOB)'
    with duckdb.connect() as connection:
        (kind,) = connection.execute(f"SELECT typeof(NULL::{written})").fetchone() or ("",)
    assert kind == 'STRUCT("a ""b""" DECIMAL(10,2), c MAP(VARCHAR, BOOLEAN[]), d BLOB)'


def test_columns_are_named_by_their_ids() -> None:
    schema = Schema(NestedField(7, "it's", LongType()))
    assert schema_argument(schema) == (
        "MAP {7: {name: 'it''s', type: 'BIGINT', default_value: NULL}}"
    )
    assert schema_argument(ICEBERG_SCHEMA).count("name: '__") == 8


def test_a_type_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(Rejected, match="timestamp_ns, which SQL cannot read here"):
        duckdb_type(TimestampNanoType())
