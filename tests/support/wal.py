"""Stores and sequencers that a test can hold back or break, around the real ones."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

from lakestream_spark.core.errors import Fenced, OutcomeUnknown
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.objectstore.store import Data, ObjectInfo, ObjectStore, Ranges
from lakestream_spark.wal.receipt import (
    BatchException,
    ExtentReceipt,
    SegmentReceipt,
    Verdict,
)
from lakestream_spark.wal.segment import SegmentExtent, StoredSegment, Withdrawn, WriterIdentity

IDENTITY = WriterIdentity(BrokerId(1), 5, "cost")


class GatedStore:
    """A store whose puts wait for the test, or fail as it says; everything else passes."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self._gates: dict[str, asyncio.Future[None]] = {}
        self.gated = False
        self.failure: Exception | None = None
        self.put_keys: list[str] = []
        self.range_calls: list[tuple[str, int]] = []
        self.ranges_open = asyncio.Event()
        self.ranges_open.set()

    @property
    def url(self) -> str:
        return self._inner.url

    async def put(self, key: str, data: Data) -> None:
        self.put_keys.append(key)
        if self.gated:
            gate = self._gates[key] = asyncio.get_running_loop().create_future()
            await gate
        if self.failure is not None:
            raise self.failure
        await self._inner.put(key, data)

    async def waits_for(self, key: str) -> None:
        """Return when the put of `key` has come."""
        while key not in self._gates:
            await asyncio.sleep(0.001)

    def open(self, key: str, failure: Exception | None = None) -> None:
        """Let the put of `key` go on, or fail."""
        gate = self._gates[key]
        if failure is None:
            gate.set_result(None)
        else:
            gate.set_exception(failure)

    async def get(self, key: str) -> bytes:
        return await self._inner.get(key)

    async def get_ranges(self, key: str, starts: Sequence[int], lengths: Sequence[int]) -> Ranges:
        self.range_calls.append((key, len(starts)))
        await self.ranges_open.wait()
        return await self._inner.get_ranges(key, starts, lengths)

    async def head(self, key: str) -> int:
        return await self._inner.head(key)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._inner.delete(keys)

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        return self._inner.list(prefix)


class MemorySequencer:
    """The memory twin of the sequencer: dense offsets, no idempotence; failures on request."""

    def __init__(self) -> None:
        self.next_offset: dict[TopicPartition, int] = defaultdict(int)
        self.committed: list[StoredSegment] = []
        self.failures: list[Exception] = []
        self.lost_replies = 0
        self.fenced = False
        self._last: SegmentReceipt | None = None

    async def commit(self, segment: StoredSegment) -> SegmentReceipt:
        await asyncio.sleep(0)
        if self.fenced:
            raise Fenced("a newer epoch of this writer exists", segment=segment.id)
        if self.failures:
            raise self.failures.pop(0)
        if self._last is None or self._last.n != segment.id.n:
            self._last = SegmentReceipt(
                segment.id.n, tuple(self._extent(segment, extent) for extent in segment.extents)
            )
            self.committed.append(segment)
        if self.lost_replies:
            self.lost_replies -= 1
            raise OutcomeUnknown("the reply was lost")
        return self._last

    def _extent(self, segment: StoredSegment, extent: SegmentExtent) -> ExtentReceipt:
        base = self.next_offset[extent.partition]
        refused = []
        for position, header in enumerate(extent.batches):
            if Withdrawn(extent.partition, header.producer_id) in segment.withdrawn:
                refused.append(BatchException(position, Verdict.OUT_OF_ORDER, -1))
            else:
                self.next_offset[extent.partition] += header.offsets
        return ExtentReceipt(base, tuple(refused))
