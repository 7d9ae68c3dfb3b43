"""The memory twin: a dictionary that keeps the sentences of the port. For tests and simulations.

It never waits, and lists in key order, so a run replays exactly from its seed and clock.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import NotFound
from lakestream_spark.objectstore.store import (
    Data,
    ObjectInfo,
    Ranges,
    check_key,
    check_prefix,
    check_ranges,
    check_same,
    short_read,
)


class _Object(NamedTuple):
    data: bytes
    modified_ms: int


class MemoryStore:
    """Objects of this process; gone with it."""

    def __init__(self, url: str = "memory://", *, clock: Clock | None = None) -> None:
        self._url = url
        self._clock = clock or SystemClock()
        self._objects: dict[str, _Object] = {}

    @property
    def url(self) -> str:
        return self._url

    async def put(self, key: str, data: Data) -> None:
        check_key(key)
        taken = self._objects.get(key)
        if taken is not None:
            check_same(self._url, key, taken.data, data)
            return
        self._objects[key] = _Object(bytes(data), self._clock.wall_ms())

    async def get(self, key: str) -> bytes:
        return self._found(key)

    async def get_ranges(self, key: str, starts: Sequence[int], lengths: Sequence[int]) -> Ranges:
        check_ranges(starts, lengths)
        whole = memoryview(self._found(key))
        ranges = [whole[start : start + n] for start, n in zip(starts, lengths, strict=True)]
        for start, n, found in zip(starts, lengths, ranges, strict=True):
            if len(found) != n:
                raise short_read(self._url, key, start=start, expected=n, actual=len(found))
        return ranges

    async def head(self, key: str) -> int:
        return len(self._found(key))

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
            self._objects.pop(key, None)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        check_prefix(prefix)
        for key in sorted(self._objects):
            found = self._objects.get(key)
            if found is not None and key.startswith(prefix):
                yield ObjectInfo(key, len(found.data), found.modified_ms)

    def _found(self, key: str) -> bytes:
        check_key(key)
        found = self._objects.get(key)
        if found is None:
            raise NotFound("no such object", store=self._url, key=key)
        return found.data
