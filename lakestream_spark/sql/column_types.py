"""The columns of an Iceberg schema, as DuckDB's Parquet reader takes them: by their field ids.

What always holds: a column is found by its id, so that one that was renamed, moved or added since a
file was written is read right; one that a file has not is null.
"""

from collections.abc import Mapping
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakestream_spark.core.errors import Rejected

_PLAIN: Final[Mapping[type[IcebergType], str]] = {
    BinaryType: "BLOB",
    BooleanType: "BOOLEAN",
    DateType: "DATE",
    DoubleType: "DOUBLE",
    FixedType: "BLOB",
    FloatType: "FLOAT",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    StringType: "VARCHAR",
    TimeType: "TIME",
    TimestampType: "TIMESTAMP",
    TimestamptzType: "TIMESTAMPTZ",
    UUIDType: "UUID",
}


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def duckdb_type(kind: IcebergType) -> str:
    """Raises `Rejected` for a type that DuckDB has not."""
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if isinstance(kind, ListType):
        return f"{duckdb_type(kind.element_type)}[]"
    if isinstance(kind, MapType):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.value_type)})"
    if isinstance(kind, StructType):
        own = ", ".join(
            f"{quoted(each.name)} {duckdb_type(each.field_type)}" for each in kind.fields
        )
        return f"STRUCT({own})"
    plain = _PLAIN.get(type(kind))
    if plain is None:
        raise Rejected(f"a column of the table is of type {kind}, which SQL cannot read here")
    return plain


def schema_argument(schema: Schema) -> str:
    """The argument `schema` of `read_parquet`."""
    own = (
        f"{each.field_id}: {{name: {literal(each.name)}, "
        f"type: {literal(duckdb_type(each.field_type))}, default_value: NULL}}"
        for each in schema.fields
    )
    return f"MAP {{{', '.join(own)}}}"
