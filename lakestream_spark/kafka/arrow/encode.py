"""Arrow arrays -> record batches, byte for byte what `records.encode_batch` makes of the same rows.

    columns ─► content ─► where batches begin ─► records of many batches at once ─► each framed

Whole columns are encoded by numpy and Arrow, so a broker needs no compiler to serve history. What
always holds: batches cover the offsets from the first row to the end with their holes; append time
is one time for a whole batch; a batch is not above its size, unless a single record is.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from crc32c import crc32c

from lakestream_spark.kafka.arrow.columns import Columns
from lakestream_spark.kafka.arrow.content import Content
from lakestream_spark.kafka.arrow.layout import Longs
from lakestream_spark.kafka.arrow.varints import (
    bounds_of,
    joined,
    joined_varints,
    lengths_of,
    sizes_of,
    zigzag,
)
from lakestream_spark.kafka.batch import (
    APPEND_TIME_FLAG,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_V2,
    BatchHeader,
)
from lakestream_spark.kafka.codecs import Codec, compress

BATCH_BYTES: Final = 256 * 1024
_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
_LAST_DELTA: Final = 2**31 - 1
_LAST_OFFSET: Final = 2**63 - 1
_NO_PRODUCER: Final = -1


def encode(
    columns: Columns,
    *,
    next_offset: int,
    codec: Codec = Codec.NONE,
    max_batch_bytes: int = BATCH_BYTES,
) -> Iterator[bytes]:
    """Batches of at most `max_batch_bytes` before compression, up to `next_offset`.

    Offsets rise from row to row. Each batch reaches to the next one, as far as 32 bits allow.
    """
    content = Content.of(columns)
    if np.any(np.diff(content.offsets) <= 0):
        raise ValueError("the offsets of the rows to encode do not rise")
    weights = _weights(content)
    bounds = _bounds(content, weights, max_batch_bytes - HEADER_BYTES)
    ends = [*content.offsets[bounds[1:-1]].tolist(), next_offset]
    for first, after in _groups(bounds, weights):
        rows = content.slice(bounds[first], bounds[after])
        begins = np.array(bounds[first : after + 1]) - bounds[first]
        for number, body in zip(range(first, after), _bodies(rows, begins), strict=True):
            header = _header(content, bounds[number], bounds[number + 1], ends[number])
            yield _framed(header, body, codec)


def _weights(content: Content) -> Longs:
    """No less than the bytes of each record, and seldom more than a few above."""
    keys, values = lengths_of(content.keys), lengths_of(content.values)
    fields = 1 + _widest(content.times) + _widest(content.offsets) + lengths_of(content.tails)
    for lengths in (keys, values):
        fields += sizes_of(zigzag(lengths)) + np.maximum(lengths, 0)
    weights: Longs = fields + sizes_of(zigzag(fields))
    return weights


def _widest(numbers: Longs) -> int:
    """Bytes of the widest delta between any two of the numbers."""
    if len(numbers) == 0:
        return 1
    span = int(numbers.max()) - int(numbers.min())
    return min(10, max(1, -(-(2 * span).bit_length() // 7)))


def _bounds(content: Content, weights: Longs, max_bytes: int) -> list[int]:
    """The row at which each batch begins, and after them the number of rows."""
    rows, total, offsets = len(weights), np.cumsum(weights), content.offsets
    apart = content.append_time[1:] != content.append_time[:-1]
    apart |= content.append_time[1:] & (content.times[1:] != content.times[:-1])
    cuts = np.append(np.flatnonzero(apart) + 1, rows)
    bounds = [0]
    while bounds[-1] < rows:
        first = bounds[-1]
        full = total.searchsorted(total[first] - weights[first] + max_bytes, "right")
        far = offsets.searchsorted(min(int(offsets[first]) + _LAST_DELTA, _LAST_OFFSET), "right")
        cut = cuts[cuts.searchsorted(first, "right")]
        bounds.append(max(first + 1, int(min(full, far, cut))))
    return bounds


def _groups(bounds: Sequence[int], weights: Longs) -> Iterator[tuple[int, int]]:
    """Batches [first, after) that are encoded together: enough for numpy, little for the cache."""
    sizes = np.add.reduceat(weights, bounds[:-1]).tolist() if len(bounds) > 1 else []
    first, size = 0, 0
    for number, own in enumerate(sizes):
        size += own
        if size >= _AT_ONCE_BYTES:
            yield first, number + 1
            first, size = number + 1, 0
    if first < len(sizes):
        yield first, len(sizes)


def _bodies(rows: Content, begins: Longs) -> Iterator[memoryview]:
    """The records of batches that begin at these rows, up to the last of `begins`."""
    first = np.repeat(begins[:-1], np.diff(begins))
    times = zigzag(rows.times - rows.times[first])
    offsets = zigzag(rows.offsets - rows.offsets[first])
    keys, values = lengths_of(rows.keys), lengths_of(rows.values)
    raw_keys, raw_values = zigzag(keys), zigzag(values)
    lengths = 1 + lengths_of(rows.tails) + np.maximum(keys, 0) + np.maximum(values, 0)
    for raws in (times, offsets, raw_keys, raw_values):
        lengths += sizes_of(raws)
    attributes = np.zeros(len(lengths), np.uint64)
    records = joined(
        joined_varints([zigzag(lengths), attributes, times, offsets, raw_keys]),
        rows.keys,
        joined_varints([raw_values]),
        rows.values,
        rows.tails,
    )
    data = memoryview(records.buffers()[2])
    positions = bounds_of(records)[begins].tolist()
    for start, end in pairwise(positions):
        yield data[start:end]


def _header(rows: Content, first: int, after: int, next_offset: int) -> BatchHeader:
    """That of the rows [first, after); the batch reaches to `next_offset`."""
    base = int(rows.offsets[first])
    return BatchHeader(
        base_offset=base,
        length=0,
        leader_epoch=0,
        magic=MAGIC_V2,
        crc=0,
        attributes=APPEND_TIME_FLAG if rows.append_time[first] else 0,
        last_offset_delta=min(next_offset - 1 - base, _LAST_DELTA),
        base_timestamp=int(rows.times[first]),
        max_timestamp=int(rows.times[first:after].max()),
        producer_id=_NO_PRODUCER,
        producer_epoch=_NO_PRODUCER,
        base_sequence=_NO_PRODUCER,
        record_count=after - first,
    )


def _framed(header: BatchHeader, body: memoryview, codec: Codec) -> bytes:
    packed = body if codec is Codec.NONE else compress(codec, body)
    header = header._replace(
        length=HEADER_BYTES + len(packed) - LENGTH_OVERHEAD, attributes=header.attributes | codec
    )
    crc = crc32c(packed, crc32c(HEADER.pack(*header)[CRC_START:]))
    return b"".join((HEADER.pack(*header._replace(crc=crc)), packed))
