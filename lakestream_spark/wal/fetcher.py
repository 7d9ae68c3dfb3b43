"""Bytes of extents: from the cache, or from the store with as few requests as possible.

What always holds: callers that want the same extent at the same time share one request (single
flight), wants that arrive in the same turn of the event loop and lie in one segment share one
call, and nothing enters the cache before its batches passed their CRCs.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lakestream_spark.core.errors import NotFound
from lakestream_spark.core.ids import SegmentId
from lakestream_spark.kafka.batch import verify
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.ports import ExtentLocation


class _Range(NamedTuple):
    """The identity of an extent's bytes."""

    segment_id: SegmentId
    profile: str
    position: int
    length: int


class SegmentGone(Exception):
    """The extent's object is not in the store: it was reclaimed, evacuated or lost."""

    def __init__(self, extent: ExtentLocation) -> None:
        super().__init__(extent)
        self.extent = extent


class ExtentFetcher:
    """Cache in front of the stores, which are by profile."""

    def __init__(self, stores: Mapping[str, ObjectStore], cache: WalCache) -> None:
        self._stores = stores
        self._cache = cache
        self._flights: dict[_Range, asyncio.Future[memoryview]] = {}
        self._wanted: dict[SegmentId, list[_Range]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def fetch(self, extents: Sequence[ExtentLocation]) -> list[memoryview]:
        """The bytes of each extent; raises `SegmentGone` when an object is not there."""
        found: list[memoryview | asyncio.Future[memoryview]] = []
        for extent in extents:
            cached = self._cache.get(extent.segment_id, extent.position, extent.length)
            found.append(self._fly(extent) if cached is None else cached)
        waits = [each for each in found if isinstance(each, asyncio.Future)]
        if waits:
            await asyncio.wait(waits)
        return [_landed(each, extent) for each, extent in zip(found, extents, strict=True)]

    def _fly(self, extent: ExtentLocation) -> asyncio.Future[memoryview]:
        want = _Range(extent.segment_id, extent.profile, extent.position, extent.length)
        flight = self._flights.get(want)
        if flight is not None:
            return flight
        flight = self._flights[want] = asyncio.get_running_loop().create_future()
        gathered = self._wanted.setdefault(want.segment_id, [])
        gathered.append(want)
        if len(gathered) == 1:
            # The task starts in the next turn of the loop: wants of this turn join it.
            task = asyncio.create_task(self._get(want.segment_id), name=f"wal-get-{want[0]}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return flight

    async def _get(self, segment_id: SegmentId) -> None:
        wants = sorted(self._wanted.pop(segment_id), key=lambda want: want.position)
        try:
            chunks = await self._stores[wants[0].profile].get_ranges(
                segment_key(segment_id),
                [want.position for want in wants],
                [want.length for want in wants],
            )
        except BaseException as error:
            for want in wants:
                self._land(want, error)
            if not isinstance(error, Exception):
                raise
            return
        for want, chunk in zip(wants, chunks, strict=True):
            self._check_and_land(want, chunk)

    def _check_and_land(self, want: _Range, chunk: memoryview) -> None:
        try:
            verify(chunk, where=f"WAL segment {want.segment_id} at {want.position}")
        except Exception as error:
            self._land(want, error)
            return
        self._cache.put_range(want.segment_id, want.position, chunk)
        self._land(want, chunk)

    def _land(self, want: _Range, outcome: memoryview | BaseException) -> None:
        flight = self._flights.pop(want)
        if flight.done():
            return
        if isinstance(outcome, memoryview):
            flight.set_result(outcome)
            return
        flight.set_exception(outcome)
        flight.exception()  # Seen, even if every reader has gone meanwhile.


def _landed(each: memoryview | asyncio.Future[memoryview], extent: ExtentLocation) -> memoryview:
    if isinstance(each, memoryview):
        return each
    try:
        return each.result()
    except NotFound as error:
        raise SegmentGone(extent) from error
