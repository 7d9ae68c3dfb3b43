"""Records as rows of the table, and back, exactly.

What a column cannot hold (a header key that is not UTF-8, a time outside the years 1 to 9999) is
kept whole in `__record`, and reading prefers that.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lakestream_spark.kafka.arrow.layout import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS
from lakestream_spark.kafka.records import Record, RecordHeader, decode_record, encode_record
from lakestream_spark.table.columns import (
    APPEND_TIME,
    ARROW_SCHEMA,
    CREATE_TIME,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    RECORD,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE,
)


class Row(NamedTuple):
    """A record as the table has it, and whether its time is the broker's."""

    record: Record
    append_time: bool


def to_arrow(partition: int, rows: Sequence[Row]) -> pa.Table:
    """The rows in the order given, as the table's columns."""
    columns: dict[str, list[Any]] = {
        PARTITION: [partition] * len(rows),
        OFFSET: [row.record.offset for row in rows],
        TIMESTAMP: [_micros(row.record.timestamp) for row in rows],
        TIMESTAMP_TYPE: [APPEND_TIME if row.append_time else CREATE_TIME for row in rows],
        KEY: [row.record.key for row in rows],
        HEADERS: [_header_values(row.record.headers) for row in rows],
        VALUE: [row.record.value for row in rows],
        RECORD: [None if _fits(row.record) else encode_record(row.record) for row in rows],
    }
    arrays = [pa.array(columns[field.name], type=field.type) for field in ARROW_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)


def from_arrow(table: pa.Table) -> Iterator[Row]:
    """The rows of one partition in offset order, whatever order the files had."""
    ordered = table.sort_by(OFFSET)
    micros = ordered[TIMESTAMP].cast(pa.int64()).to_pylist()
    columns = [
        ordered[name].to_pylist() for name in (OFFSET, KEY, VALUE, HEADERS, TIMESTAMP_TYPE, RECORD)
    ]
    for time, offset, key, value, headers, kind, encoded in zip(micros, *columns, strict=True):
        if encoded is not None:
            record = decode_record(encoded, offset)
        else:
            record = Record(
                offset,
                time // 1000,
                key,
                value,
                tuple(RecordHeader(each["key"].encode(), each["value"]) for each in headers),
            )
        yield Row(record, kind == APPEND_TIME)


def _fits(record: Record) -> bool:
    if not _has_a_date(record.timestamp):
        return False
    try:
        for key, _ in record.headers:
            key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _micros(timestamp_ms: int) -> int | None:
    return timestamp_ms * 1000 if _has_a_date(timestamp_ms) else None


def _has_a_date(timestamp_ms: int) -> bool:
    return FIRST_TIMESTAMP_MS <= timestamp_ms <= LAST_TIMESTAMP_MS


def _header_values(headers: Sequence[RecordHeader]) -> list[dict[str, Any]]:
    return [{"key": key.decode(errors="replace"), "value": value} for key, value in headers]
