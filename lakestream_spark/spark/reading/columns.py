"""The columns that Spark sees: the table's own, or those of Spark's `kafka` source.

Written down here and not computed from the table's schema, which takes a second to load: a test
holds them to it.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

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
KAFKA_COLUMNS: Final = {
    "key": "__key",
    "value": "__value",
    "topic": None,
    "partition": "__partition",
    "offset": "__offset",
    "timestamp": "__timestamp",
    "timestampType": "__timestamp_type",
    "headers": "__headers",
}
"""Kafka's names, and what the table calls the same."""
TOPIC: Final = "topic"
_ROWS_AT_ONCE: Final = 16 * 1024

_ARROW: Final = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
    # Spark knows no lists with 64-bit offsets.
    _HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def kafka_names(*, headers: bool) -> list[str]:
    return [name for name in KAFKA_COLUMNS if headers or name != "headers"]


def schema(names: list[str] | None) -> str:
    """As Spark writes it: the table's columns, or those with these names of Kafka's."""
    if names is None:
        kinds = TABLE_COLUMNS
    else:
        kinds = {
            name: "string" if (column := KAFKA_COLUMNS[name]) is None else TABLE_COLUMNS[column]
            for name in names
        }
    return ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())


def selected(names: list[str] | None) -> tuple[str, ...]:
    """The table's columns that are needed for that."""
    if names is None:
        return tuple(TABLE_COLUMNS)
    return tuple(column for name in names if (column := KAFKA_COLUMNS[name]) is not None)


def batches(rows: pa.Table, topic: str, names: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Rows of the table as Spark takes them."""
    arrays = {
        column: rows[column].cast(_ARROW[TABLE_COLUMNS[column]]) for column in selected(names)
    }
    if names is not None:
        named = {
            name: pa.repeat(topic, len(rows)) if column is None else arrays[column]
            for name, column in KAFKA_COLUMNS.items()
            if name in names
        }
        arrays = named
    yield from pa.table(arrays).to_batches(max_chunksize=_ROWS_AT_ONCE)
