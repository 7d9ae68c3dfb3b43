"""The writer: seal, upload in parallel, commit in order, answer everybody, stay bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import Fenced, OutcomeUnknown, Overloaded, Unavailable
from lakestream_spark.core.ids import SegmentId, TopicPartition
from lakestream_spark.core.retry import Backoff
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.format import decode_segment
from lakestream_spark.wal.receipt import BatchAnswer, Verdict
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.support.batches import checked, make_batch
from tests.support.clock import SimulatedClock
from tests.support.segments import TOPIC_A, TOPIC_B
from tests.support.wal import IDENTITY, GatedStore, MemorySequencer

A0, A1, B0 = TopicPartition(TOPIC_A, 0), TopicPartition(TOPIC_A, 1), TopicPartition(TOPIC_B, 0)
QUICK = FlushPolicy(max_age_ms=1, commit_backoff=Backoff(first_s=0.001, cap_s=0.001))


def key(n: int) -> str:
    return segment_key(SegmentId(IDENTITY.broker_id, IDENTITY.broker_epoch, n))


class Bench:
    """A writer over a gated memory store and the memory sequencer."""

    def __init__(self, policy: FlushPolicy, clock: Clock) -> None:
        self.memory = MemoryStore()
        self.store = GatedStore(self.memory)
        self.sequencer = MemorySequencer()
        self.cache = WalCache(1 << 20)
        self.writer = WalWriter(
            IDENTITY,
            policy,
            store=self.store,
            sequencer=self.sequencer,
            cache=self.cache,
            clock=clock,
        )

    def send(
        self, partition: TopicPartition, *values: bytes, producer: int = -1, sequence: int = -1
    ) -> asyncio.Task[list[BatchAnswer]]:
        batch = make_batch(
            values, producer_id=producer, epoch=0 if producer >= 0 else -1, sequence=sequence
        )
        return asyncio.create_task(self.writer.append(partition, checked(batch)))


@asynccontextmanager
async def bench(policy: FlushPolicy = QUICK, clock: Clock | None = None) -> AsyncIterator[Bench]:
    made = Bench(policy, clock or SystemClock())
    async with made.writer:
        yield made


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_callers_of_many_partitions_share_a_segment_and_each_gets_its_offset() -> None:
    async with bench() as b:
        sends = [b.send(A0, b"1", b"2"), b.send(B0, b"3"), b.send(A0, b"4")]
        answers = await asyncio.gather(*sends)
    assert answers == [
        [BatchAnswer(Verdict.ACCEPTED, 0)],
        [BatchAnswer(Verdict.ACCEPTED, 0)],
        [BatchAnswer(Verdict.ACCEPTED, 2)],
    ]
    assert b.store.put_keys == [key(1)]


async def test_commits_in_seal_order_when_second_upload_finishes_first() -> None:
    async with bench() as b:
        b.store.gated = True
        first = b.send(A0, b"first")
        await settle()
        b.writer.seal()
        second = b.send(A0, b"second")
        await settle()
        b.writer.seal()
        await settle()
        b.store.open(key(2))
        await settle()
        assert not second.done()
        assert b.sequencer.committed == []
        b.store.open(key(1))
        assert await first == [BatchAnswer(Verdict.ACCEPTED, 0)]
        assert await second == [BatchAnswer(Verdict.ACCEPTED, 1)]
    assert [segment.id.n for segment in b.sequencer.committed] == [1, 2]


async def test_seals_by_age_and_not_before() -> None:
    clock = SimulatedClock()
    async with bench(FlushPolicy(max_age_ms=250), clock) as b:
        send = b.send(A0, b"x")
        await clock.advance(0.2)
        assert b.store.put_keys == []
        await clock.advance(0.06)
        assert b.store.put_keys == [key(1)]
        await send


async def test_the_age_of_a_segment_counts_from_its_first_batch_after_a_seal_by_size() -> None:
    clock = SimulatedClock()
    async with bench(FlushPolicy(max_age_ms=250, max_bytes=1000), clock) as b:
        sends = [b.send(A0, b"x")]
        await clock.advance(0.2)
        sends += [b.send(A0, b"x" * 1000), b.send(A0, b"next")]
        await clock.advance(0.2)
        assert b.store.put_keys == [key(1)]
        await clock.advance(0.06)
        assert b.store.put_keys == [key(1), key(2)]
        await asyncio.gather(*sends)


async def test_no_records_no_put() -> None:
    clock = SimulatedClock()
    async with bench(FlushPolicy(max_age_ms=10), clock) as b:
        b.writer.seal()
        await clock.advance(60)
    assert b.store.put_keys == []


async def test_when_the_store_is_slow_callers_wait_and_memory_stays_bounded() -> None:
    policy = FlushPolicy(max_age_ms=1, max_bytes=1000, max_uploads=2, max_inflight_bytes=4000)
    async with bench(policy) as b:
        b.store.gated = True
        sends = [b.send(A0, b"x" * 900) for _ in range(20)]
        await b.store.waits_for(key(2))
        await asyncio.sleep(0.05)
        assert b.writer.inflight_bytes <= 4000
        assert len(b.store.put_keys) == 2
        b.store.gated = False
        for n in (1, 2):
            b.store.open(key(n))
        answers = await asyncio.gather(*sends)
    assert [answer.base_offset for (answer,) in answers] == list(range(20))


async def test_a_caller_that_finds_no_room_in_time_is_told_so() -> None:
    policy = FlushPolicy(max_age_ms=1, max_inflight_bytes=1000, answer_within_ms=30)
    async with bench(policy) as b:
        b.store.gated = True
        first = b.send(A0, b"x" * 900)
        second = b.send(A0, b"x" * 900)
        with pytest.raises(Overloaded):
            await second
        await b.store.waits_for(key(1))
        b.store.open(key(1))
        await asyncio.gather(first, return_exceptions=True)  # perhaps told as well, by now


async def test_a_failed_upload_uses_no_offset_and_its_callers_may_retry() -> None:
    async with bench() as b:
        b.store.failure = Unavailable("the store is gone")
        with pytest.raises(Unavailable, match=r"could not be stored.*the store is gone"):
            await b.send(A0, b"lost")
        b.store.failure = None
        assert await b.send(A0, b"kept") == [BatchAnswer(Verdict.ACCEPTED, 0)]


async def test_later_batches_of_a_failed_producer_are_refused_and_others_are_not() -> None:
    clock = SimulatedClock()  # what is sealed by hand is not sealed by age before
    async with bench(QUICK, clock) as b:
        b.store.gated = True
        head = b.send(A0, b"0", producer=9, sequence=0)
        await settle()
        b.writer.seal()
        sealed = b.send(A0, b"1", producer=9, sequence=1)
        other = b.send(A1, b"o", producer=9, sequence=0)
        await settle()
        b.writer.seal()
        still_open = b.send(A0, b"2", producer=9, sequence=2)
        await settle()
        b.store.gated = False
        b.store.open(key(1), Unavailable("gone"))
        b.store.open(key(2))
        with pytest.raises(Unavailable):
            await head
        await clock.advance(1)
        assert [a.verdict for a in await sealed] == [Verdict.OUT_OF_ORDER]
        assert [a.verdict for a in await still_open] == [Verdict.OUT_OF_ORDER]
        assert await other == [BatchAnswer(Verdict.ACCEPTED, 0)]
        resent = [b.send(A0, b"%d" % n, producer=9, sequence=n) for n in range(3)]
        await clock.advance(1)
        answers = await asyncio.gather(*resent)
    assert [a.base_offset for (a,) in answers] == [0, 1, 2]


async def test_a_lost_commit_reply_is_asked_again_and_commits_once() -> None:
    async with bench() as b:
        b.sequencer.lost_replies = 3
        assert await b.send(A0, b"x") == [BatchAnswer(Verdict.ACCEPTED, 0)]
    assert len(b.sequencer.committed) == 1


async def test_a_caller_is_answered_in_time_while_its_commit_stays_unknown() -> None:
    clock = SimulatedClock()
    policy = FlushPolicy(max_age_ms=1, answer_within_ms=1000)
    async with bench(policy, clock) as b:
        b.sequencer.failures = [Unavailable("metadata store gone")] * 100
        send = b.send(A0, b"x")
        await clock.advance(30)
        with pytest.raises(OutcomeUnknown, match="metadata store gone"):
            await send
        assert b.writer.inflight_bytes > 0
        b.sequencer.failures = []
        await clock.advance(5)
        assert len(b.sequencer.committed) == 1
        assert b.writer.inflight_bytes == 0


async def test_a_fenced_writer_stops_and_says_so_to_everybody() -> None:
    async with bench(QUICK, SimulatedClock()) as b:
        b.store.gated = True
        first = b.send(A0, b"1")
        await settle()
        b.writer.seal()
        waiting = b.send(A0, b"2")
        await settle()
        b.sequencer.fenced = True
        b.store.open(key(1))
        for send in (first, waiting, b.send(A0, b"3")):
            with pytest.raises(Fenced):
                await send
        assert b.writer.inflight_bytes == 0
    assert b.sequencer.committed == []


class CountingClock(SimulatedClock):
    """Knows how often it was read; who never stops reading it is stopped."""

    reads = 0
    bound = 10_000

    def monotonic(self) -> float:
        self.reads += 1
        assert self.reads < self.bound
        return super().monotonic()


async def test_the_timer_of_a_fenced_writer_rests_when_its_open_segment_is_thrown_away() -> None:
    clock = CountingClock()
    async with bench(QUICK, clock) as b:
        b.store.gated = True
        first = b.send(A0, b"1")
        await settle()
        b.writer.seal()
        waiting = b.send(A0, b"2")
        await settle()
        b.sequencer.fenced = True
        b.store.open(key(1))
        await asyncio.gather(first, waiting, return_exceptions=True)
        await clock.advance(1)
    assert clock.reads < clock.bound // 10
    assert b.store.put_keys == [key(1)]


async def test_the_open_segment_grows_while_enough_segments_are_on_their_way() -> None:
    clock = SimulatedClock()
    async with bench(FlushPolicy(max_age_ms=10, max_ahead=2), clock) as b:
        b.store.gated = True
        sends = []
        for number in range(5):
            sends.append(b.send(A0, str(number).encode()))
            await clock.advance(0.02)
        assert b.store.put_keys == [key(1), key(2)]
        b.store.gated = False
        b.store.open(key(1))
        assert await sends[0] == [BatchAnswer(Verdict.ACCEPTED, 0)]
        await clock.advance(0.02)
        assert b.store.put_keys == [key(1), key(2), key(3)]
        b.store.open(key(2))
        answers = await asyncio.gather(*sends)
    assert [answer.base_offset for (answer,) in answers] == [0, 1, 2, 3, 4]


async def test_callers_of_a_segment_behind_hanging_ones_are_answered_in_time() -> None:
    clock = SimulatedClock()
    policy = FlushPolicy(max_age_ms=10, max_ahead=1, answer_within_ms=1_000)
    async with bench(policy, clock) as b:
        b.store.gated = True
        sends = [b.send(A0, b"1")]
        await clock.advance(0.1)
        sends.append(b.send(A0, b"2"))
        await clock.advance(1.4)
        for send in sends:
            with pytest.raises(OutcomeUnknown):
                await send
        b.store.gated = False
        for n in (1, 2):
            await b.store.waits_for(key(n))
            b.store.open(key(n))


async def test_closing_answers_what_was_taken_and_takes_nothing_more() -> None:
    made = Bench(FlushPolicy(max_age_ms=60_000), SystemClock())
    async with made.writer:
        send = made.send(A0, b"x")
        await settle()
    assert await send == [BatchAnswer(Verdict.ACCEPTED, 0)]
    with pytest.raises(Unavailable, match="closing"):
        await made.send(A0, b"y")


async def test_each_segment_carries_the_receipts_of_earlier_commits_once() -> None:
    async with bench() as b:
        await b.send(A0, b"1", b"2")
        await b.send(B0, b"3")
        b.store.failure = Unavailable("gone")
        with pytest.raises(Unavailable):
            await b.send(A0, b"4")
        b.store.failure = None
        await b.send(A0, b"5")
        await b.send(A0, b"6")
    receipts = {
        n: [r.n for r in decode_segment(await b.memory.get(key(n)), where=key(n)).receipts]
        for n in (1, 2, 4, 5)
    }
    assert receipts == {1: [], 2: [1], 4: [2], 5: [4]}


async def test_a_committed_segment_is_in_the_cache_before_its_callers_know() -> None:
    async with bench() as b:
        await b.send(A0, b"x")
        segment_id = SegmentId(IDENTITY.broker_id, IDENTITY.broker_epoch, 1)
        extent = b.sequencer.committed[0].extents[0]
        cached = b.cache.get(segment_id, extent.position, extent.length)
    assert cached is not None
    assert bytes(cached) == make_batch([b"x"])
