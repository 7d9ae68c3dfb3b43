"""What the kernels are made of: varints, UTF-8, big-endian fields, copies.

Refusals travel as negative positions: whoever is given one hands it on, so that a kernel looks once
for all the steps of a record. What always holds: nothing is read at or beyond `end`, whatever the
bytes say; the caller sees to it that `end` lies within the array.
"""

# numba has the last word on types here: a numpy integer is an int to it.
# mypy: disable-error-code="return-value, no-any-return"

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from lakestream_spark.kafka.arrow.layout import ENDS_INSIDE, VARINT_TOO_LONG, Bytes

F = TypeVar("F", bound=Callable[..., Any])

_NOT_SHORT: Final = 0
_MAX: Final = 2**63 - 1
_MIN: Final = -(2**63)
_LAST_SHIFT: Final = 63
_REPLACED_BIT: Final = 2


def compiled(function: F) -> F:
    """A function that kernels call."""
    return cast(F, njit(nogil=True)(function))


def inlined(function: F) -> F:
    """A function that kernels call, part of each of them."""
    return cast(F, njit(nogil=True, forceinline=True)(function))


@intrinsic
def _memcpy(_: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into = context.make_array(signature.args[0])(context, builder, args[0]).data
        origin = context.make_array(signature.args[2])(context, builder, args[2]).data
        to, back = builder.gep(into, [args[1]]), builder.gep(origin, [args[3]])
        cgutils.raw_memcpy(builder, to, back, args[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, at, source, start, size), generate


@inlined
def _touch(data: Bytes, position: int) -> int:
    """Dropped by the compiler, unless it was told to check bounds: then it does that for copies."""
    return data[position]


@inlined
def copy(target: Bytes, at: int, source: Bytes, start: int, size: int) -> None:
    """`size` bytes of `source` from `start` on to `target` at `at`; they lie within both."""
    if size > 0:
        _touch(target, at + size - 1)
        _touch(source, start + size - 1)
        _memcpy(target, at, source, start, size)  # type: ignore[call-arg]


@inlined
def skip(position: int, size: int) -> int:
    """`size` bytes further on; a negative position stays what it is."""
    return position if position < 0 else position + size


@inlined
def varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """The zigzag varint at `position`, and the position after it or a refusal.

    Beyond 64 bits it is the nearest number of 64 bits.
    """
    number, after = _short_varint(data, position, end)
    if after != _NOT_SHORT:
        return number, after
    number, after, last = _long_varint(data, position, end)
    if last > 1:
        return (_MIN if data[position] & 1 else _MAX), after
    return number, after


@inlined
def wrapped_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """As `varint`, but beyond 64 bits it is the number's lowest 64."""
    number, after = _short_varint(data, position, end)
    if after != _NOT_SHORT:
        return number, after
    number, after, _ = _long_varint(data, position, end)
    return number, after


@inlined
def _short_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """A varint of one or two bytes, as nearly all are."""
    if position < 0 or position + 1 >= end:
        return 0, _NOT_SHORT
    first, second = np.int64(data[position]), np.int64(data[position + 1])
    if first < 128:
        return (first >> 1) ^ -(first & 1), position + 1
    if second < 128:
        raw = (first & 127) | (second << 7)
        return (raw >> 1) ^ -(raw & 1), position + 2
    return 0, _NOT_SHORT


@compiled
def _long_varint(data: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """The lowest 64 bits of the varint, the position after it, and what its tenth byte holds."""
    raw = np.uint64(0)
    shift = 0
    if position < 0:
        return 0, position, 0
    while True:
        if position >= end:
            return 0, -ENDS_INSIDE, 0
        byte = np.int64(data[position])
        raw |= np.uint64(byte & 127) << np.uint64(shift)
        if byte < 128:
            break
        if shift >= _LAST_SHIFT:
            return 0, -VARINT_TOO_LONG, 0
        shift += 7
        position += 1
    half = raw >> np.uint64(1)
    last = byte if shift == _LAST_SHIFT else 0
    if last & _REPLACED_BIT:
        # Bit 64 of what was sent: the highest that is left after the sign is taken away.
        half |= np.uint64(1) << np.uint64(_LAST_SHIFT)
    return np.int64(half) ^ -np.int64(raw & np.uint64(1)), position + 1, last


@inlined
def big_endian(data: Bytes, position: int, size: int) -> int:
    """The signed number of `size` bytes at `position`."""
    raw = np.int64(np.int8(data[position]))
    for at in range(position + 1, position + size):
        raw = (raw << 8) | np.int64(data[at])
    return raw


@compiled
def is_utf8(data: Bytes, position: int, end: int) -> bool:
    """Whether Python would decode these bytes strictly."""
    while position < end:
        first = np.int64(data[position])
        position += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if end - position < more:
            return False
        second = np.int64(data[position])
        lowest = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        highest = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < lowest or second > highest:
            return False
        for at in range(position + 1, position + more):
            if np.int64(data[at]) & 0xC0 != 0x80:
                return False
        position += more
    return True
