"""The columns that Spark sees: the table's own, or those of Spark's `kafka` source.

Written down here and not computed from the table's schema, which takes a second to load: a test
holds them to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from lakestream_spark.core.errors import Misconfigured

_HEADERS: Final = "array<struct<key: string, value: binary>>"
TABLE_COLUMNS: Final = {
    "__partition": "int",
    "__offset": "bigint",
    "__timestamp": "timestamp",
    "__timestamp_type": "int",
    "__key": "binary",
    "__headers": _HEADERS,
    "__value": "binary",
    "__record": "binary",
}
_KAFKA_COLUMNS: Final = {
    "key": "__key",
    "value": "__value",
    "topic": None,
    "partition": "__partition",
    "offset": "__offset",
    "timestamp": "__timestamp",
    "timestampType": "__timestamp_type",
    "headers": "__headers",
}
_ROWS_AT_ONCE: Final = 16 * 1024

_ARROW: Final = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
    # Spark knows no lists with 64-bit offsets.
    _HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


Shape: TypeAlias = Mapping[str, str | None]
"""The columns that Spark sees, and what the table calls the same; the topic's name is in no row."""


def table_shape(names: Sequence[str] | None = None) -> Shape:
    """All columns of the table, or those with these names; raises `Misconfigured`."""
    for name in names or ():
        if name not in TABLE_COLUMNS:
            raise Misconfigured(f"there is no column {name!r}; known: {', '.join(TABLE_COLUMNS)}")
    return {name: name for name in names or TABLE_COLUMNS}


def kafka_shape(*, headers: bool) -> Shape:
    return {name: own for name, own in _KAFKA_COLUMNS.items() if headers or name != "headers"}


def schema(shape: Shape) -> str:
    """As Spark writes it."""
    return ", ".join(
        f"`{name}` {'string' if column is None else TABLE_COLUMNS[column]}"
        for name, column in shape.items()
    )


def batches(rows: pa.Table, topic: str, shape: Shape) -> Iterator[pa.RecordBatch]:
    """Rows of the table as Spark takes them."""
    arrays = {
        name: pa.repeat(topic, len(rows))
        if column is None
        else rows[column].cast(_ARROW[TABLE_COLUMNS[column]])
        for name, column in shape.items()
    }
    yield from pa.table(arrays).to_batches(max_chunksize=_ROWS_AT_ONCE)
