"""A hash for each row, the same here and in Spark SQL, whatever file the row lies in.

    xxhash64(__offset, __timestamp, <form>, __key,
             <for each header: key, whether its value is null, value>, __value, __record)

Spark skips nulls, so that a key could pass for a value. Hence the form, one number: which of key,
value and record are null, the timestamp's type, and how many headers there are.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestream_spark.kafka.arrow.bodies import readonly
from lakestream_spark.kafka.arrow.columns import BINARY, Columns
from lakestream_spark.kafka.arrow.compiled import hash_kernel
from lakestream_spark.kafka.arrow.layout import Bytes, Fields, HashedRows, Hashes, Longs

_NO_TYPE: Final = 2


def row_hashes(columns: Columns) -> Hashes:
    """The hash of each row."""
    names, contents, ends = _headers(columns.headers)
    rows = HashedRows(
        offsets=_longs(columns.offsets),
        times=_longs(columns.timestamps.view(pa.int64())),
        times_valid=_valid(columns.timestamps),
        types=readonly(pc.fill_null(columns.timestamp_types, _NO_TYPE).to_numpy()),
        keys=_fields(columns.keys),
        values=_fields(columns.values),
        records=_fields(columns.records),
        header_ends=ends,
        header_keys=_fields(names),
        header_values=_fields(contents),
    )
    hashes = np.empty(len(columns), np.uint64)
    hash_kernel()(rows, hashes)
    return hashes


def _valid(array: pa.Array) -> Bytes:
    if not array.null_count:
        return readonly(np.ones(len(array), np.uint8))
    return readonly(array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8))


def _longs(array: pa.Array) -> Longs:
    """Of numbers; what stands for null is never looked at."""
    if array.null_count:
        array = pc.fill_null(array, 0)
    return readonly(array.to_numpy())


def _fields(array: pa.LargeBinaryArray) -> Fields:
    _, ends, data = array.buffers()
    content = readonly(np.frombuffer(data or b"", np.uint8))
    return Fields(content, _offsets(ends, array), _valid(array))


def _headers(
    lists: pa.LargeListArray,
) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray, Longs]:
    """Keys and values of all headers, and where those of each row end among them."""
    if lists.null_count:
        filled = [[] if each is None else each for each in lists.to_pylist()]
        lists = pa.array(filled, type=lists.type)
    pairs = lists.values
    ends = _offsets(lists.buffers()[1], lists)
    return pairs.field("key").cast(BINARY), pairs.field("value"), ends


def _offsets(buffer: pa.Buffer | None, array: pa.Array) -> Longs:
    if buffer is None or not buffer.size:
        return readonly(np.zeros(len(array) + 1, np.int64))
    found = np.frombuffer(buffer, np.int64)
    return readonly(found[array.offset : array.offset + len(array) + 1])
