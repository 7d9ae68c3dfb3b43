"""Each rule of the log is broken once on purpose: the checker must name it.

A checker that never fails proves nothing, so every sabotage below is the smallest change to the
real components, or to what they stored, that breaks exactly one promise.
"""

from collections.abc import Iterator

import pytest

from lakestream_spark.core.ids import SegmentId, TopicPartition
from lakestream_spark.metadata.database import Execute, Transaction
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.wal.receipt import ExtentReceipt, SegmentReceipt
from lakestream_spark.wal.segment import StoredSegment
from tests.simulation.faults import Fault
from tests.simulation.world import GRACE_MS, Broken, Broker, Sent, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.create_topic("orders", 2)
    made.start_broker(1)
    yield made
    made.close()


def p0(world: World) -> TopicPartition:
    return TopicPartition(world.topics["orders"].id, 0)


def produce(world: World, broker: Broker, *values: bytes, sequence: int = -1) -> Sent:
    producer = 7 if sequence >= 0 else -1
    sent = Sent(p0(world), values, producer, 0 if sequence >= 0 else -1, sequence)
    world.send(broker, sent)
    world.seal(broker)
    world.settle(broker)
    return sent


def tamper(world: World, sql: str) -> None:
    def change() -> Transaction[None]:
        yield Execute(sql)

    world.run(world.metadata.database.run(change()))


def test_a_healthy_world_passes(world: World) -> None:
    produce(world, world.brokers[1], b"a", b"b", sequence=0)
    world.check()
    world.compact("orders")
    world.check()
    world.check_no_garbage()


def test_a_skipped_offset_breaks_density(world: World) -> None:
    produce(world, world.brokers[1], b"a")
    tamper(world, "UPDATE partitions SET next_offset = next_offset + 1")
    with pytest.raises(AssertionError, match="OffsetDensity"):
        world.check()


def test_an_offset_given_twice_breaks_density(world: World) -> None:
    produce(world, world.brokers[1], b"a", b"b")
    produce(world, world.brokers[1], b"c")
    tamper(world, "UPDATE extents SET base_offset = 1, next_offset = 2 WHERE base_offset = 2")
    with pytest.raises(AssertionError, match="OffsetDensity"):
        world.check()


def test_an_acknowledgement_before_the_commit_is_acked_loss(world: World) -> None:
    class AnswersFirst:
        """Says that a segment is committed without committing it."""

        async def commit(self, segment: StoredSegment) -> SegmentReceipt:
            return SegmentReceipt(segment.id.n, tuple(ExtentReceipt(0) for _ in segment.extents))

    world.brokers[1].sequencer.inner = AnswersFirst()
    produce(world, world.brokers[1], b"a")
    with pytest.raises(Broken, match="NoAckedLoss"):
        world.check()


def test_a_deleted_segment_is_acked_loss(world: World) -> None:
    produce(world, world.brokers[1], b"a")
    broker = world.brokers[1].identity
    key = segment_key(SegmentId(broker.broker_id, broker.broker_epoch, 1))
    world.run(world.store.delete([key]))
    with pytest.raises(Broken, match="NoAckedLoss"):
        world.check()


def test_a_readable_record_that_was_refused_is_a_phantom(world: World) -> None:
    sent = produce(world, world.brokers[1], b"a")
    world.models[p0(world)].refused.update(sent.values)
    with pytest.raises(Broken, match="NoPhantom: refused"):
        world.check()


def test_a_readable_record_that_was_never_sent_is_a_phantom(world: World) -> None:
    produce(world, world.brokers[1], b"a")
    world.models[p0(world)].sent.clear()
    with pytest.raises(Broken, match="NoPhantom: never sent"):
        world.check()


def test_a_sequencer_that_forgets_producers_stores_a_retry_twice(world: World) -> None:
    sent = produce(world, world.brokers[1], b"a", sequence=0)
    tamper(world, "DELETE FROM producers")
    world.brokers[1].sequencer.inner = world.new_sequencer()
    world.send(world.brokers[1], sent)
    world.seal(world.brokers[1])
    with pytest.raises(Broken, match="DedupAtomic"):
        world.settle(world.brokers[1])
    with pytest.raises(Broken, match="DedupAtomic"):
        world.check()


def test_reclaiming_a_referenced_segment_is_noticed(world: World) -> None:
    produce(world, world.brokers[1], b"a")
    tamper(world, "UPDATE segments SET live_extents = 0, live_bytes = 0, unreferenced_ms = 0")
    with pytest.raises(AssertionError, match="live"):
        world.check()
    world.run(world.clock.advance(GRACE_MS / 1000 + 1))
    world.reclaim()
    with pytest.raises(Broken, match="NoAckedLoss"):
        world.read_wal(p0(world), 0)


def test_reclaiming_without_a_grace_period_breaks_a_readers_location(world: World) -> None:
    produce(world, world.brokers[1], b"a")
    world.check()
    world.reclaimer = world.new_reclaimer(grace_ms=-1)
    world.compact("orders")
    world.reclaim()
    with pytest.raises(Broken, match="ReadYourLocation"):
        world.check()


def test_an_orphan_that_is_never_collected_is_garbage(world: World) -> None:
    broker = world.brokers[1]
    world.send(broker, Sent(p0(world), (b"lost",), -1, -1, -1))
    world.seal(broker, Fault.HANGS_AFTER)
    world.settle(broker)
    world.crash(1)
    world.start_broker(1)
    tamper(world, "DELETE FROM epochs")
    with pytest.raises(Broken, match="NoGarbage"):
        world.check_no_garbage()
