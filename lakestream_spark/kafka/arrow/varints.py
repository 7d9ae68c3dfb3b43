"""Zigzag varints of whole columns, and columns joined row by row: numpy and Arrow, no loop.

Arrow joins the fields of a row by copying each once, so what comes out is one buffer that holds the
rows one after the other.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestream_spark.kafka.arrow.layout import Longs

Raws = np.ndarray[tuple[int], np.dtype[np.uint64]]
Sizes = np.ndarray[tuple[int], np.dtype[np.int64]]

BINARY: Final = pa.large_binary()
_NOTHING: Final = pa.scalar(b"", BINARY)
_STEPS: Final = [np.uint64(1 << 7 * count) for count in range(1, 10)]


def zigzag(values: Longs) -> Raws:
    """What a varint holds: small numbers stay small, whatever their sign."""
    raws: Raws = ((values << 1) ^ (values >> 63)).view(np.uint64)
    return raws


def sizes_of(raws: Raws) -> Sizes:
    """How many bytes each takes as a varint."""
    sizes = np.ones(len(raws), np.int64)
    highest = raws.max(initial=np.uint64(0))
    for step in _STEPS:
        if highest < step:
            break
        sizes += raws >= step
    return sizes


def joined_varints(columns: Sequence[Raws]) -> pa.LargeBinaryArray:
    """One value per row: its varints one after the other."""
    sizes = [sizes_of(column) for column in columns]
    widths = [int(size.max(initial=1)) for size in sizes]
    rows = len(columns[0])
    # As wide as the widest of each column; what is too much is left out at the end.
    table = np.empty((sum(widths), rows), np.uint8)
    keep = np.empty((sum(widths), rows), np.bool_)
    at = 0
    for column, size, width in zip(columns, sizes, widths, strict=True):
        for byte in range(width):
            more = (size > byte + 1).view(np.uint8) << 7
            table[at] = (column >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F | more
            keep[at] = size > byte
            at += 1
    return binary_array(ends_of(np.sum(sizes, axis=0)), pa.py_buffer(table.T[keep.T]))


def joined(*columns: pa.Array | pa.Scalar) -> pa.LargeBinaryArray:
    """One value per row: its fields one after the other; null is nothing."""
    return pc.binary_join_element_wise(
        *columns, _NOTHING, null_handling="replace", null_replacement=""
    )


def binary_array(ends: Longs, data: pa.Buffer) -> pa.LargeBinaryArray:
    return pa.Array.from_buffers(BINARY, len(ends) - 1, [None, pa.py_buffer(ends), data])


def ends_of(sizes: Sizes) -> Longs:
    """Where values of these sizes begin, and after them where the last one ends."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


def bounds_of(array: pa.LargeBinaryArray | pa.LargeListArray) -> Longs:
    """The ends that the array has already, of its own rows only."""
    ends = np.frombuffer(array.buffers()[1], np.int64)
    return ends[array.offset : array.offset + len(array) + 1]


def lengths_of(array: pa.LargeBinaryArray) -> Longs:
    """The length of each value as a record has it: -1 for null."""
    if len(array) == 0:
        return np.zeros(0, np.int64)
    lengths: Longs = np.diff(bounds_of(array))
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths
