"""The kernel that hashes rows: XXH64 as Spark's SQL function `xxhash64` chains it over columns.

What always holds: the hash of a row is what Spark computes for the expression in `row_hash`, so
either side can check the other; nothing outside the arrays given is read.
"""

# numba has the last word on types here: a numpy integer is an int to it.
# mypy: disable-error-code="return-value,no-any-return,arg-type,assignment,call-arg,unreachable"

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from lakestream_spark.kafka.arrow.layout import Bytes, HashedRows, Hashes
from lakestream_spark.kafka.arrow.primitives import inlined

_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_SEED: Final = np.uint64(42)
_LOW: Final = np.uint64(0xFFFFFFFF)


@intrinsic
def _word(_: Any, data: Any, position: Any) -> Any:
    """The eight bytes at a position, little-endian, wherever they lie."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        at = builder.bitcast(builder.gep(array.data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(at, align=1)

    return types.uint64(data, position), generate


@inlined
def _rotated(number: int, left: int) -> int:
    return (number << np.uint64(left)) | (number >> np.uint64(64 - left))


@inlined
def _mixed(number: int) -> int:
    """The end of every hash."""
    number = (number ^ (number >> np.uint64(33))) * _P2
    number = (number ^ (number >> np.uint64(29))) * _P3
    return number ^ (number >> np.uint64(32))


@inlined
def _hash_word(number: int, seed: int) -> int:
    """Of eight bytes."""
    return _mixed(_with_word(seed + _P5 + np.uint64(8), np.uint64(number)))


@inlined
def _hash_half(number: int, seed: int) -> int:
    """Of four bytes."""
    return _mixed(_with_half(seed + _P5 + np.uint64(4), np.uint64(number) & _LOW))


@inlined
def _with_word(hashed: int, word: int) -> int:
    return _rotated(hashed ^ (_rotated(word * _P2, 31) * _P1), 27) * _P1 + _P4


@inlined
def _with_half(hashed: int, half: int) -> int:
    return _rotated(hashed ^ (half * _P1), 23) * _P2 + _P3


@inlined
def _lane(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1


@inlined
def _merged(hashed: int, lane: int) -> int:
    return (hashed ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4


@inlined
def _hash_bytes(data: Bytes, start: int, end: int, seed: int) -> int:
    """Of the bytes from `start` to `end`."""
    at = start
    if end - start >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at <= end - 32:
            one = _lane(one, _word(data, at))
            two = _lane(two, _word(data, at + 8))
            three = _lane(three, _word(data, at + 16))
            four = _lane(four, _word(data, at + 24))
            at += 32
        hashed = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
        hashed = _merged(_merged(_merged(_merged(hashed, one), two), three), four)
    else:
        hashed = seed + _P5
    hashed += np.uint64(end - start)
    while at <= end - 8:
        hashed = _with_word(hashed, _word(data, at))
        at += 8
    if at <= end - 4:
        half = np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)
        half |= np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 3]) << np.uint64(24)
        hashed = _with_half(hashed, half)
        at += 4
    while at < end:
        hashed = _rotated(hashed ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _mixed(hashed)


def hash_rows(rows: HashedRows, into: Hashes) -> int:
    """The hash of every row; how many there are. As Spark does it, null leaves a hash as it is."""
    # Arrays are counted references: taken once here, and not for every row.
    key_data, key_ends, key_valid = rows.keys
    value_data, value_ends, value_valid = rows.values
    record_data, record_ends, record_valid = rows.records
    name_data, name_ends, _ = rows.header_keys
    content_data, content_ends, content_valid = rows.header_values
    offsets, times, times_valid, types = rows.offsets, rows.times, rows.times_valid, rows.types
    ends = rows.header_ends
    for row in range(len(into)):
        hashed = _hash_word(offsets[row], _SEED)
        if times_valid[row]:
            hashed = _hash_word(times[row], hashed)
        nulls = 7 - (key_valid[row] + 2 * value_valid[row] + 4 * record_valid[row])
        form = nulls + 8 * types[row] + 32 * (ends[row + 1] - ends[row])
        hashed = _hash_word(form, hashed)
        if key_valid[row]:
            hashed = _hash_bytes(key_data, key_ends[row], key_ends[row + 1], hashed)
        for at in range(ends[row], ends[row + 1]):
            hashed = _hash_bytes(name_data, name_ends[at], name_ends[at + 1], hashed)
            hashed = _hash_half(1 - content_valid[at], hashed)
            if content_valid[at]:
                hashed = _hash_bytes(content_data, content_ends[at], content_ends[at + 1], hashed)
        if value_valid[row]:
            hashed = _hash_bytes(value_data, value_ends[row], value_ends[row + 1], hashed)
        if record_valid[row]:
            hashed = _hash_bytes(record_data, record_ends[row], record_ends[row + 1], hashed)
        into[row] = hashed
    return len(into)
