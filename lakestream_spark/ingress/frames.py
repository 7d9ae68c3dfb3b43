"""Frames out of a byte stream: four bytes of size, then that many bytes.

What always holds: the buffer grows with the bytes that really came (it doubles when it is full),
not with a declared size, and above a megabyte only when its owner calls `grow`; an idle connection
holds a small one; a size that is not allowed is refused before anything is kept for it.
"""

import struct
from typing import Final

from lakestream_spark.core.errors import Rejected

_SIZE: Final = struct.Struct(">i")
_IDLE_BYTES: Final = 4 * 1024
_LEAP_BYTES: Final = 1024 * 1024


class FrameBuffer:
    """Bytes between `_start` and `_end` have come and were not taken yet."""

    __slots__ = ("_buffer", "_end", "_limit", "_start")

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray(_IDLE_BYTES)
        self._start = 0
        self._end = 0
        self._limit = limit

    @property
    def full(self) -> bool:
        """No byte more fits before the first frame is taken."""
        return self._end == len(self._buffer) and self.complete()

    @property
    def stuck(self) -> bool:
        """The buffer is large, full, and the frame goes on: its owner has to `grow` it."""
        return self._end - self._start == len(self._buffer) >= _LEAP_BYTES and not self.complete()

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    def grow(self) -> None:
        """Make room for more of a frame that is stuck."""
        self._make_room()

    def rest(self) -> None:
        """Give back what an idle connection does not need."""
        if self._start == self._end and len(self._buffer) > _IDLE_BYTES:
            self._buffer, self._start, self._end = bytearray(_IDLE_BYTES), 0, 0

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._end == len(self._buffer):
            self._make_room()
        return memoryview(self._buffer)[self._end :]

    def received(self, size: int) -> None:
        self._end += size

    def complete(self) -> bool:
        """A whole frame is there."""
        size = self._size()
        return size is not None and self._end - self._start >= _SIZE.size + size

    def frame(self) -> memoryview | None:
        """The first whole frame, read-only, valid until `taken`; a bad size is `Rejected`."""
        size = self._size()
        if size is None:
            return None
        if not 0 < size <= self._limit:
            raise Rejected("the size of a request is not allowed", size=size, max=self._limit)
        first = self._start + _SIZE.size
        if self._end < first + size:
            return None
        return memoryview(self._buffer)[first : first + size].toreadonly()

    def taken(self, size: int) -> None:
        """The first frame, of this size, is done with."""
        self._start += _SIZE.size + size
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > 2 * _LEAP_BYTES:
                self.rest()

    def _size(self) -> int | None:
        if self._end - self._start < _SIZE.size:
            return None
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0]
        return size

    def _make_room(self) -> None:
        """Move what is left to the front of a buffer that is larger if it was full."""
        kept = self._end - self._start
        capacity = len(self._buffer)
        if kept > capacity // 2:
            # Views of the old buffer may be out, so it is replaced, not resized.
            wanted = (self._size() or 0) + _SIZE.size
            capacity = max(2 * capacity, min(wanted, 16 * capacity, _LEAP_BYTES + _SIZE.size))
        fresh = bytearray(capacity)
        fresh[:kept] = memoryview(self._buffer)[self._start : self._end]
        self._buffer, self._start, self._end = fresh, 0, kept
