"""A byte-bounded cache of WAL bytes: whole segments from the writer, ranges from read misses.

What always holds: the bytes kept never exceed the bound; what is in the cache was checked (a
segment is what the writer sealed, a range passed its batches' CRCs).
"""

from collections import OrderedDict
from typing import Final

from lakestream_spark.core.ids import SegmentId

_WHOLE: Final = (-1, -1)


class WalCache:
    """Least recently used goes first; one entry per whole segment or exact range."""

    __slots__ = ("_bytes", "_entries", "_limit", "hits", "misses")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._entries: OrderedDict[tuple[SegmentId, tuple[int, int]], memoryview] = OrderedDict()
        self.hits = 0
        self.misses = 0

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def get(self, segment_id: SegmentId, position: int, length: int) -> memoryview | None:
        """The range's bytes, from the whole segment or from an earlier read of the same range."""
        whole = self._entries.get((segment_id, _WHOLE))
        if whole is not None:
            self._entries.move_to_end((segment_id, _WHOLE))
            self.hits += 1
            return whole[position : position + length]
        key = (segment_id, (position, length))
        found = self._entries.get(key)
        if found is None:
            self.misses += 1
            return None
        self._entries.move_to_end(key)
        self.hits += 1
        return found

    def put_segment(self, segment_id: SegmentId, data: bytes) -> None:
        self._put((segment_id, _WHOLE), memoryview(data))

    def put_range(self, segment_id: SegmentId, position: int, data: memoryview) -> None:
        # A copy: the view may be a slice of a larger buffer, which the bound would not count.
        self._put((segment_id, (position, len(data))), memoryview(bytes(data)))

    def _put(self, key: tuple[SegmentId, tuple[int, int]], data: memoryview) -> None:
        if len(data) > self._limit:
            return
        previous = self._entries.pop(key, None)
        if previous is not None:
            self._bytes -= len(previous)
        self._entries[key] = data
        self._bytes += len(data)
        while self._bytes > self._limit:
            _, evicted = self._entries.popitem(last=False)
            self._bytes -= len(evicted)
