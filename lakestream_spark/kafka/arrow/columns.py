"""From the arrays that the kernels fill to Arrow arrays, without copying what they hold.

Two columns are not the kernels': header keys that are not UTF-8 are shown with replacement
characters, and their records, as those with times outside the years 1 to 9999, are kept whole
besides.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakestream_spark.kafka.arrow.layout import (
    APPEND_TIME,
    HEADER_KEY_END,
    HEADER_LONGS,
    HEADER_VALUE_END,
    HEADERS,
    HEADERS_END,
    KEY_END,
    KEY_VALID,
    ODD,
    ODD_HEADER_KEY,
    ODD_TIME,
    OFFSET,
    RECORD_LONGS,
    RECORD_MARKS,
    ROWS,
    TIMESTAMP,
    VALUE_END,
    VALUE_VALID,
    Bytes,
    Longs,
    Space,
)
from lakestream_spark.kafka.records import Record, RecordHeader, encode_record

BINARY: Final = pa.large_binary()
HEADER: Final = pa.struct([pa.field("key", pa.large_string(), nullable=False), ("value", BINARY)])
HEADER_LIST: Final = pa.large_list(pa.field("element", HEADER, nullable=False))
MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
_HEADER_FIELD_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Records of one partition as Arrow arrays of equal length, in the order of their batches.

    No headers are an empty list. `records` is null, or what `records.encode_record` makes of a
    record that the other columns cannot hold exactly.
    """

    offsets: pa.Int64Array
    timestamps: pa.TimestampArray
    timestamp_types: pa.Int32Array
    keys: pa.LargeBinaryArray
    headers: pa.LargeListArray
    values: pa.LargeBinaryArray
    records: pa.LargeBinaryArray

    def __len__(self) -> int:
        return len(self.offsets)


def new_space(rows: int, size: int, headers: int) -> Space:
    """Arrays for so many bytes of keys and of values, and at first for so many rows and headers."""
    space = Space(
        cursor=np.zeros(2, np.int64),
        longs=np.empty((RECORD_LONGS, rows + 1), np.int64),
        marks=np.empty((RECORD_MARKS, rows), np.uint8),
        keys=np.empty(size, np.uint8),
        values=np.empty(size, np.uint8),
        header_longs=np.empty((HEADER_LONGS, headers + 1), np.int64),
        header_valid=np.empty(headers, np.uint8),
        header_keys=np.empty(headers * _HEADER_FIELD_BYTES, np.uint8),
        header_values=np.empty(headers * _HEADER_FIELD_BYTES, np.uint8),
    )
    space.longs[:, 0] = 0
    space.header_longs[:, 0] = 0
    return space


def with_rows(space: Space, more: int) -> Space:
    """The same with room for so many more rows, at least."""
    rows, capacity = int(space.cursor[ROWS]), space.marks.shape[1]
    if rows + more <= capacity:
        return space
    capacity = max(rows + more, 2 * capacity)
    longs = np.empty((RECORD_LONGS, capacity + 1), np.int64)
    longs[:, : rows + 1] = space.longs[:, : rows + 1]
    marks = np.empty((RECORD_MARKS, capacity), np.uint8)
    marks[:, :rows] = space.marks[:, :rows]
    return space._replace(longs=longs, marks=marks)


def with_more_headers(space: Space) -> Space:
    """The same with room for twice as many headers."""
    capacity, size = len(space.header_valid), len(space.header_keys)
    longs = np.empty((HEADER_LONGS, 2 * capacity + 1), np.int64)
    longs[:, : capacity + 1] = space.header_longs
    return space._replace(
        header_longs=longs,
        header_valid=_longer(space.header_valid, 2 * capacity),
        header_keys=_longer(space.header_keys, 2 * size),
        header_values=_longer(space.header_values, 2 * size),
    )


def _longer(array: Bytes, size: int) -> Bytes:
    """What is never written to takes no memory."""
    found = np.empty(size, np.uint8)
    found[: len(array)] = array
    return found


def columns_of(space: Space) -> Columns:
    """What has been decoded, as Arrow; the arrays belong to it from now on."""
    rows = int(space.cursor[ROWS])
    longs, marks = space.longs, space.marks[:, :rows]
    keys = _binary(longs[KEY_END, : rows + 1], space.keys, marks[KEY_VALID])
    values = _binary(longs[VALUE_END, : rows + 1], space.values, marks[VALUE_VALID])
    header_keys, header_values = _header_columns(space)
    odd = marks[ODD]
    records = pa.nulls(rows, BINARY)
    if odd.any():
        records = _encoded(space, keys, values, header_keys, header_values)
    return Columns(
        offsets=pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(longs[OFFSET, :rows])]),
        timestamps=_timestamps(longs[TIMESTAMP, :rows], odd),
        timestamp_types=pa.array(marks[APPEND_TIME].astype(np.int32)),
        keys=keys,
        headers=_headers(space, header_keys, header_values),
        values=values,
        records=records,
    )


def _binary(ends: Longs, data: Bytes, valid: Bytes) -> pa.LargeBinaryArray:
    nulls = len(valid) - int(np.count_nonzero(valid))
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    buffers = [bitmap, pa.py_buffer(ends), pa.py_buffer(data[: ends[-1]])]
    return pa.Array.from_buffers(BINARY, len(valid), buffers, nulls)


def _timestamps(millis: Longs, odd: Bytes) -> pa.TimestampArray:
    beyond = (odd & ODD_TIME).astype(bool)
    mask = beyond if beyond.any() else None
    return pa.array(millis * 1000, mask=mask).view(MICROSECONDS)


def _header_columns(space: Space) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    count = int(space.cursor[HEADERS])
    longs = space.header_longs[:, : count + 1]
    keys = _binary(longs[HEADER_KEY_END], space.header_keys, np.ones(count, np.uint8))
    values = _binary(longs[HEADER_VALUE_END], space.header_values, space.header_valid[:count])
    return keys, values


def _headers(
    space: Space, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray
) -> pa.LargeListArray:
    rows = int(space.cursor[ROWS])
    if (space.marks[ODD, :rows] & ODD_HEADER_KEY).any():
        text = [key.decode(errors="replace") for key in keys.to_pylist()]
        names = pa.array(text, pa.large_string())
    else:
        names = keys.view(pa.large_string())
    pairs = pa.Array.from_buffers(HEADER, len(keys), [None], 0, children=[names, values])
    ends = pa.py_buffer(space.longs[HEADERS_END, : rows + 1])
    return pa.Array.from_buffers(HEADER_LIST, rows, [None, ends], 0, children=[pairs])


def _encoded(space: Space, *columns: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """The whole record of each odd row, null for the others."""
    rows = int(space.cursor[ROWS])
    encoded: list[bytes | None] = [None] * rows
    for row in np.flatnonzero(space.marks[ODD, :rows]).tolist():
        encoded[row] = encode_record(_record(space, row, columns))
    return pa.array(encoded, BINARY)


def _record(space: Space, row: int, columns: tuple[Any, ...]) -> Record:
    keys, values, header_keys, header_values = columns
    first, after = space.longs[HEADERS_END, row : row + 2].tolist()
    pairs = zip(
        header_keys[first:after].to_pylist(), header_values[first:after].to_pylist(), strict=True
    )
    return Record(
        0,
        int(space.longs[TIMESTAMP, row]),
        keys[row].as_py(),
        values[row].as_py(),
        tuple(RecordHeader(*pair) for pair in pairs),
    )
