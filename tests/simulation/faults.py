"""A store and a sequencer that fail exactly when the simulation says so."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from enum import Enum

from lakestream_spark.core.errors import OutcomeUnknown, Unavailable
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.objectstore.store import Data, ObjectInfo, Ranges
from lakestream_spark.wal.ports import Sequencer
from lakestream_spark.wal.receipt import SegmentReceipt
from lakestream_spark.wal.segment import StoredSegment


class Fault(Enum):
    """What happens to one call."""

    NONE = "works"
    FAILS = "fails, nothing happened"
    LOST_REPLY = "happens, but the caller sees a failure"
    HANGS_BEFORE = "never answers, nothing happened"
    HANGS_AFTER = "happens, but never answers"


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


class FaultyStore:
    """The memory store behind a plan of faults for the next puts."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.plan: deque[Fault] = deque()

    @property
    def url(self) -> str:
        return self.inner.url

    async def put(self, key: str, data: Data) -> None:
        fault = self.plan.popleft() if self.plan else Fault.NONE
        if fault is Fault.HANGS_BEFORE:
            await _for_ever()
        if fault is Fault.FAILS:
            raise Unavailable("the store failed", key=key)
        await self.inner.put(key, data)
        if fault is Fault.LOST_REPLY:
            raise Unavailable("the reply was lost and so were those of all retries", key=key)
        if fault is Fault.HANGS_AFTER:
            await _for_ever()

    async def get(self, key: str) -> bytes:
        return await self.inner.get(key)

    async def get_ranges(self, key: str, starts: Sequence[int], lengths: Sequence[int]) -> Ranges:
        return await self.inner.get_ranges(key, starts, lengths)

    async def head(self, key: str) -> int:
        return await self.inner.head(key)

    async def delete(self, keys: Sequence[str]) -> None:
        await self.inner.delete(keys)

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        return self.inner.list(prefix)


class FaultySequencer:
    """The real sequencer behind a plan of faults for the next commits."""

    def __init__(self, inner: Sequencer) -> None:
        self.inner = inner
        self.plan: deque[Fault] = deque()

    async def commit(self, segment: StoredSegment) -> SegmentReceipt:
        fault = self.plan.popleft() if self.plan else Fault.NONE
        if fault is Fault.HANGS_BEFORE:
            await _for_ever()
        if fault is Fault.FAILS:
            raise Unavailable("the metadata store is gone")
        receipt = await self.inner.commit(segment)
        if fault is Fault.LOST_REPLY:
            raise OutcomeUnknown("the connection was lost after COMMIT was sent")
        if fault is Fault.HANGS_AFTER:
            await _for_ever()
        return receipt
