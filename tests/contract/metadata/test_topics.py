"""Topics, their partitions and their configuration."""

import asyncio
from uuid import UUID

import pytest

from lakestream_spark.core.errors import InvalidPartitions, InvalidTopic, TopicExists, UnknownTopic
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.topics import DeletedTopic
from tests.support.metadata import header, stored

NOBODY = TopicId(UUID(int=0))


async def test_a_created_topic_is_found_by_name_and_by_id(metadata, clock):
    created = await metadata.topics.create(
        "orders", partitions=3, replication_factor=2, config={"retention.ms": "5"}
    )
    assert created.created_ms == clock.wall_ms()
    assert await metadata.topics.get("orders") == created
    assert await metadata.topics.get_by_id(created.id) == created


async def test_topics_are_listed_by_name(metadata):
    for name in ("b", "a.1", "c_2"):
        await metadata.topics.create(name)
    assert [topic.name for topic in await metadata.topics.list()] == ["a.1", "b", "c_2"]


async def test_a_name_is_taken_once(metadata):
    await metadata.topics.create("orders")
    with pytest.raises(TopicExists, match="orders"):
        await metadata.topics.create("orders")


async def test_of_creators_at_the_same_time_one_wins(metadata):
    creating = [metadata.topics.create("orders", partitions=2) for _ in range(6)]
    results = await asyncio.gather(*creating, return_exceptions=True)
    assert sum(isinstance(result, TopicExists) for result in results) == 5
    assert len(await metadata.topics.list()) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "x" * 250, "a\n"])
async def test_names_that_kafka_refuses_are_refused(metadata, name):
    with pytest.raises(InvalidTopic):
        await metadata.topics.create(name)
    assert await metadata.topics.list() == []


async def test_a_topic_needs_a_partition(metadata):
    with pytest.raises(InvalidTopic):
        await metadata.topics.create("orders", partitions=0)


async def test_an_unknown_topic_is_named(metadata):
    with pytest.raises(UnknownTopic, match="nothing"):
        await metadata.topics.get("nothing")
    for call in (
        metadata.topics.get_by_id(NOBODY),
        metadata.topics.delete(NOBODY),
        metadata.topics.add_partitions(NOBODY, 5),
        metadata.topics.alter_config(NOBODY, {}),
    ):
        with pytest.raises(UnknownTopic):
            await call


async def test_deleting_forgets_partitions_extents_and_references(
    metadata, writer, partition, clock
):
    other = TopicPartition((await metadata.topics.create("kept")).id, 0)
    only = stored(writer, 1, (partition, [header()]))
    shared = stored(writer, 2, (partition, [header()]), (other, [header()]))
    for segment in (only, shared):
        await metadata.sequencer.commit(segment)
    await metadata.topics.delete(partition.topic_id)
    with pytest.raises(UnknownTopic):
        await metadata.extents.locate(partition, 0, 1)
    found = await metadata.ledger.unreferenced("cost", before_ms=clock.wall_ms() + 1, limit=9)
    assert [candidate.segment_id for candidate in found] == [only.id]
    assert [e.partition for e in await metadata.ledger.live_extents([shared.id])] == [other]


async def test_deleting_forgets_the_producers(metadata, writer, partition, clock):
    batch = header(producer=7, sequence=0)
    await metadata.sequencer.commit(stored(writer, 1, (partition, [batch])))
    await metadata.topics.delete(partition.topic_id)
    assert await metadata.producers.expire(before_ms=clock.wall_ms() + 1, limit=9) == 0


async def test_a_deleted_topic_is_gone_and_its_name_is_free(metadata, partition):
    await metadata.topics.delete(partition.topic_id)
    with pytest.raises(UnknownTopic):
        await metadata.topics.delete(partition.topic_id)
    again = await metadata.topics.create("orders")
    assert again.id != partition.topic_id
    assert [topic.id for topic in await metadata.topics.list()] == [again.id]


async def test_added_partitions_can_be_written_at_once(metadata, writer, partition):
    last = TopicPartition(partition.topic_id, 4)
    refused = stored(writer, 1, (last, [header()]))
    assert (await metadata.sequencer.commit(refused)).extents[0].exceptions
    topic = await metadata.topics.add_partitions(partition.topic_id, 5)
    assert topic.partitions == 5
    assert sorted(await metadata.tables.ends(topic.id)) == [0, 1, 2, 3, 4]
    taken = await metadata.sequencer.commit(stored(writer, 2, (last, [header()])))
    assert taken.extents[0].exceptions == ()


@pytest.mark.parametrize("total", [0, 2, 3])
async def test_partitions_are_never_taken_away(metadata, partition, total):
    with pytest.raises(InvalidTopic, match="only be added"):
        await metadata.topics.add_partitions(partition.topic_id, total)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("many", [10_001, 100_000_000])
async def test_a_topic_has_ten_thousand_partitions_at_most(metadata, partition, many):
    with pytest.raises(InvalidPartitions, match=f"at most 10000 partitions, not {many}"):
        await metadata.topics.create("wide", partitions=many)
    with pytest.raises(InvalidPartitions, match=f"at most 10000 partitions, not {many}"):
        await metadata.topics.add_partitions(partition.topic_id, many)
    assert [topic.partitions for topic in await metadata.topics.list()] == [3]


async def test_altering_replaces_the_configuration(metadata, partition):
    await metadata.topics.alter_config(partition.topic_id, {"a": "1", "b": "2"})
    changed = await metadata.topics.alter_config(partition.topic_id, {"b": "3"})
    assert changed.config == {"b": "3"}
    assert await metadata.topics.get("orders") == changed


async def test_topic_ids_come_from_the_factory(clock):
    metadata = await open_metadata("sqlite://", clock=clock, new_id=lambda: UUID(int=7))
    assert (await metadata.topics.create("orders")).id == UUID(int=7)
    await metadata.close()


async def test_a_deleted_topic_waits_until_its_table_is_settled(metadata, clock):
    kept = await metadata.topics.create("kept")
    await metadata.topics.create("alive")
    await metadata.topics.delete(kept.id)
    again = await metadata.topics.create("kept")
    await clock.advance(5)
    assert await metadata.topics.deleted() == [DeletedTopic(kept, 5_000)]
    await metadata.topics.settle_table(kept.id)
    assert await metadata.topics.deleted() == []
    assert (await metadata.topics.get("kept")).id == again.id
