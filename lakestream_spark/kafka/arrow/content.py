"""Columns of the table as the content of records: what is encoded, whatever batch it goes into.

What always holds: a row that has its whole encoded record is that record, whatever its other
columns say; no headers, an empty list and a null list are the same.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestream_spark.kafka.arrow.columns import Columns
from lakestream_spark.kafka.arrow.layout import Longs
from lakestream_spark.kafka.arrow.varints import (
    BINARY,
    binary_array,
    bounds_of,
    ends_of,
    joined,
    joined_varints,
    lengths_of,
    zigzag,
)
from lakestream_spark.kafka.records import NO_TIMESTAMP, Record, decode_record, encode_record

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

_NO_HEADERS: Final = b"\x00"
_BEFORE_HEADERS: Final = 5  # attributes, both deltas, and neither key nor value


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Records in offset order; `tails` are their encoded headers with the count."""

    offsets: Longs
    times: Longs
    append_time: Flags
    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray
    tails: pa.LargeBinaryArray

    @classmethod
    def of(cls, columns: Columns) -> Self:
        types = pc.fill_null(columns.timestamp_types, 0)
        content = cls(
            offsets=columns.offsets.to_numpy(),
            times=_millis(columns.timestamps),
            append_time=types.to_numpy(zero_copy_only=False) == 1,
            keys=columns.keys,
            values=columns.values,
            tails=_tails(columns.headers),
        )
        if columns.records.null_count == len(columns):
            return content
        return content._with_records(columns.records)

    def slice(self, first: int, after: int) -> Self:
        """The rows [first, after), without a copy."""
        return type(self)(
            offsets=self.offsets[first:after],
            times=self.times[first:after],
            append_time=self.append_time[first:after],
            keys=self.keys[first:after],
            values=self.values[first:after],
            tails=self.tails[first:after],
        )

    def _with_records(self, encoded: pa.LargeBinaryArray) -> Self:
        whole = encoded.is_valid()
        rows = np.flatnonzero(whole.to_numpy(zero_copy_only=False))
        records = [decode_record(data, 0) for data in encoded.drop_null().to_pylist()]
        times = self.times.copy()
        times[rows] = [record.timestamp for record in records]

        def replaced(column: pa.Array, values: list[bytes | None]) -> pa.Array:
            return pc.replace_with_mask(column, whole, pa.array(values, BINARY))

        return type(self)(
            offsets=self.offsets,
            times=times,
            append_time=self.append_time,
            keys=replaced(self.keys, [record.key for record in records]),
            values=replaced(self.values, [record.value for record in records]),
            tails=replaced(self.tails, [_tail(record) for record in records]),
        )


def _millis(timestamps: pa.TimestampArray) -> Longs:
    """Rows that say no time have none."""
    micros = timestamps.view(pa.int64())
    millis: Longs = micros.fill_null(NO_TIMESTAMP * 1000).to_numpy() // 1000
    return millis


def _tails(headers: pa.LargeListArray) -> pa.LargeBinaryArray:
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    if not counts.any():
        data = pa.py_buffer(_NO_HEADERS * len(headers))
        return binary_array(np.arange(len(headers) + 1), data)
    names, values = headers.flatten().flatten()
    keys = names.cast(BINARY)
    encoded = joined(
        joined_varints([zigzag(lengths_of(keys))]),
        keys,
        joined_varints([zigzag(lengths_of(values))]),
        values,
    )
    # The headers of a row lie side by side already.
    ends = bounds_of(encoded)[ends_of(counts)]
    return joined(joined_varints([zigzag(counts)]), binary_array(ends, encoded.buffers()[2]))


def _tail(record: Record) -> bytes:
    alone = encode_record(Record(0, 0, None, None, record.headers))
    length = 1 + next(at for at, byte in enumerate(alone) if byte < 0x80)
    return alone[length + _BEFORE_HEADERS :]
