"""Producer ids and their expiry."""

import asyncio

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.wal.receipt import Verdict
from tests.support.metadata import answers, header, stored


async def test_producer_ids_are_handed_out_once(metadata):
    ids = await asyncio.gather(*(metadata.producers.allocate() for _ in range(20)))
    assert len(set(ids)) == 20
    assert min(ids) >= 0


async def test_silent_producers_expire_and_the_others_stay(metadata, writer, partition, clock):
    second = TopicPartition(partition.topic_id, 1)
    await metadata.sequencer.commit(
        stored(writer, 1, (partition, [header(producer=7, sequence=0)]))
    )
    await clock.advance(60)
    await metadata.sequencer.commit(stored(writer, 2, (second, [header(producer=7, sequence=0)])))
    assert await metadata.producers.expire(before_ms=clock.wall_ms(), limit=10) == 1
    assert await metadata.producers.expire(before_ms=clock.wall_ms() + 1, limit=10) == 1


async def test_expiry_is_bounded(metadata, writer, partition, clock):
    batches = [header(producer=producer, sequence=0) for producer in range(5)]
    await metadata.sequencer.commit(stored(writer, 1, (partition, batches)))
    expired = [
        await metadata.producers.expire(before_ms=clock.wall_ms() + 1, limit=2) for _ in range(4)
    ]
    assert expired == [2, 2, 1, 0]


async def test_an_expired_producer_may_begin_with_any_sequence(open_again, clock):
    one, other = await open_again(), await open_again()
    topic = await one.topics.create("orders")
    partition = TopicPartition(topic.id, 0)
    writer = await one.writers.register(1, "cost")
    await one.sequencer.commit(stored(writer, 1, (partition, [header(producer=7, sequence=0)])))
    await one.producers.expire(before_ms=clock.wall_ms() + 1, limit=1)
    segment = stored(writer, 2, (partition, [header(producer=7, sequence=55)]))
    receipt = await other.sequencer.commit(segment)
    assert answers(segment, receipt) == [[(Verdict.ACCEPTED, 1)]]
