"""A byte-bounded cache of WAL bytes: whole segments from the writer, ranges from read misses.

What always holds: the bytes kept never exceed the bound; what is in the cache was checked (a
segment is what the writer sealed, a range passed its batches' CRCs); who reads a long way through
the WAL takes no more than half of the room from the newest segments, where the tail is.
"""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from lakestream_spark.core.ids import SegmentId

Key = TypeVar("Key")
_RANGES_SHARE: Final = 2


class WalCache:
    """Least recently used goes first, of segments and of exact ranges apart."""

    __slots__ = ("_limit", "_ranges", "_segments", "hits", "misses")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._segments: _Shelf[SegmentId] = _Shelf()
        self._ranges: _Shelf[tuple[SegmentId, int, int]] = _Shelf()
        self.hits = 0
        self.misses = 0

    @property
    def held_bytes(self) -> int:
        return self._segments.bytes + self._ranges.bytes

    def get(self, segment_id: SegmentId, position: int, length: int) -> memoryview | None:
        """The range's bytes, from the whole segment or from an earlier read of the same range."""
        found = self._segments.get(segment_id)
        if found is not None:
            found = found[position : position + length]
        else:
            found = self._ranges.get((segment_id, position, length))
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put_segment(self, segment_id: SegmentId, data: bytes) -> None:
        if len(data) <= self._limit:
            self._segments.put(segment_id, memoryview(data))
            self._make_room()

    def put_range(self, segment_id: SegmentId, position: int, data: memoryview) -> None:
        if len(data) <= self._limit:
            # A copy: the view may be a slice of a larger buffer, which the bound would not count.
            self._ranges.put((segment_id, position, len(data)), memoryview(bytes(data)))
            self._make_room()

    def _make_room(self) -> None:
        while self.held_bytes > self._limit:
            if self._ranges.bytes > self._limit // _RANGES_SHARE or not self._segments.bytes:
                self._ranges.drop_oldest()
            else:
                self._segments.drop_oldest()


class _Shelf(Generic[Key]):
    """Entries in the order of their last use."""

    __slots__ = ("_entries", "bytes")

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, memoryview] = OrderedDict()
        self.bytes = 0

    def get(self, key: Key) -> memoryview | None:
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: Key, data: memoryview) -> None:
        previous = self._entries.pop(key, None)
        self._entries[key] = data
        self.bytes += len(data) - (0 if previous is None else len(previous))

    def drop_oldest(self) -> None:
        _, dropped = self._entries.popitem(last=False)
        self.bytes -= len(dropped)
