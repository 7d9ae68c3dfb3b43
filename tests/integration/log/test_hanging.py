"""Stores that neither answer nor fail: callers are told in time, and nothing is lost by that."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lakestream_spark.core.errors import OutcomeUnknown
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.receipt import BatchAnswer, SegmentReceipt, Verdict
from lakestream_spark.wal.segment import StoredSegment
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.support.batches import checked, make_batch
from tests.support.clock import SimulatedClock
from tests.support.segments import TOPIC_A
from tests.support.wal import IDENTITY, GatedStore, MemorySequencer

PARTITION = TopicPartition(TOPIC_A, 0)
POLICY = FlushPolicy(max_age_ms=10, answer_within_ms=5_000)


class SlowSequencer(MemorySequencer):
    """Commits, but says so only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.awake = asyncio.Event()
        self.awake.set()

    async def commit(self, segment: StoredSegment) -> SegmentReceipt:
        await self.awake.wait()
        return await super().commit(segment)


class Bench:
    """A writer between a store and a sequencer that can hang."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.store = GatedStore(MemoryStore(clock=self.clock))
        self.sequencer = SlowSequencer()
        self.writer = WalWriter(
            IDENTITY,
            POLICY,
            store=self.store,
            sequencer=self.sequencer,
            cache=WalCache(0),
            clock=self.clock,
        )

    def send(self, value: bytes) -> asyncio.Task[list[BatchAnswer]]:
        return asyncio.create_task(self.writer.append(PARTITION, checked(make_batch([value]))))

    async def pass_time(self, seconds: float) -> None:
        for _ in range(10):
            await self.clock.advance(seconds / 10)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    async with bench.writer:
        yield bench


async def test_callers_are_answered_in_time_while_a_commit_hangs(bench: Bench):
    bench.sequencer.awake.clear()
    waiting = bench.send(b"a")
    await bench.pass_time(4)
    assert not waiting.done()
    await bench.pass_time(3)
    with pytest.raises(OutcomeUnknown, match="in time"):
        await waiting
    bench.sequencer.awake.set()
    await bench.pass_time(1)
    assert len(bench.sequencer.committed) == 1
    later = bench.send(b"b")
    await bench.pass_time(1)
    assert await later == [BatchAnswer(Verdict.ACCEPTED, 1)]


async def test_callers_are_answered_in_time_while_an_upload_hangs(bench: Bench):
    bench.store.gated = True
    waiting = bench.send(b"a")
    await bench.pass_time(7)
    with pytest.raises(OutcomeUnknown, match="in time"):
        await waiting
    bench.store.gated = False
    (key,) = bench.store.put_keys
    bench.store.open(key)
    later = bench.send(b"b")
    await bench.pass_time(1)
    assert await later == [BatchAnswer(Verdict.ACCEPTED, 1)]


async def test_what_waits_for_a_hanging_commit_keeps_its_bytes_in_the_bound(bench: Bench):
    bench.sequencer.awake.clear()
    waiting = bench.send(b"a")
    await bench.pass_time(7)
    assert waiting.exception() is not None
    assert bench.writer.inflight_bytes > 0
    bench.sequencer.awake.set()
    await bench.pass_time(1)
    assert bench.writer.inflight_bytes == 0
