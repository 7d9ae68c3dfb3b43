"""Table ends, plans and intents."""

from uuid import UUID

import pytest

from lakestream_spark.core.errors import Corrupt, Fenced, Rejected, UnknownTopic
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata import Metadata, references, tables
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.tables import Intent, PlannedRange
from tests.support.metadata import header, stored

OTHER = TopicId(UUID(int=5))


@pytest.fixture
async def lease(metadata):
    return await metadata.leases.try_acquire("table", "me", 1)


@pytest.fixture
async def topic_id(metadata, writer, partition):
    """A topic with ten offsets in each of two partitions, two per extent."""
    second = TopicPartition(partition.topic_id, 1)
    for n in range(5):
        segment = stored(writer, n + 1, (partition, [header(2)]), (second, [header(2)]))
        await metadata.sequencer.commit(segment)
    return partition.topic_id


async def table_ends(metadata: Metadata, topic_id: TopicId) -> list[int]:
    return [ends.table_end for ends in (await metadata.tables.ends(topic_id)).values()]


async def test_plans_are_numbered_upwards_and_read_back(metadata, clock):
    ranges = {OTHER: (PlannedRange(0, 5, 9), PlannedRange(3, 0, 1))}
    first = await metadata.tables.create_plan(ranges)
    second = await metadata.tables.create_plan({})
    assert second > first
    plan = await metadata.tables.plan(first)
    assert (plan.number, plan.created_ms, plan.ranges) == (first, clock.wall_ms(), ranges)
    assert (await metadata.tables.latest_plan()).number == second


async def test_pruned_plans_are_gone_and_their_numbers_are_not_used_again(metadata):
    numbers = [await metadata.tables.create_plan({}) for _ in range(3)]
    await metadata.tables.prune_plans(numbers[-1] + 1)
    assert await metadata.tables.latest_plan() is None
    assert await metadata.tables.plan(numbers[0]) is None
    assert await metadata.tables.create_plan({}) > numbers[-1]


async def test_an_intent_is_read_back_and_replaced_by_its_own_commit(metadata, lease, topic_id):
    assert await metadata.tables.intent(topic_id) is None
    first = Intent(topic_id=topic_id, commit_id="c1", plan=1, body={"files": []})
    await metadata.tables.save_intent(lease, first)
    again = Intent(topic_id=topic_id, commit_id="c1", plan=1, body={"files": ["é", {"n": 1}]})
    await metadata.tables.save_intent(lease, again)
    assert await metadata.tables.intent(topic_id) == again


async def test_a_second_commit_waits_until_the_first_is_finished_or_abandoned(
    metadata, lease, topic_id
):
    def intent(commit_id: str) -> Intent:
        return Intent(topic_id=topic_id, commit_id=commit_id, plan=1, body={})

    await metadata.tables.save_intent(lease, intent("c1"))
    with pytest.raises(Rejected, match="finish or abandon"):
        await metadata.tables.save_intent(lease, intent("c2"))
    await metadata.tables.abandon(lease, topic_id, "c2")
    assert (await metadata.tables.intent(topic_id)).commit_id == "c1"
    await metadata.tables.abandon(lease, topic_id, "c1")
    await metadata.tables.save_intent(lease, intent("c2"))
    assert (await metadata.tables.intent(topic_id)).commit_id == "c2"


async def test_finishing_moves_the_ends_and_forgets_extents_and_intent(metadata, lease, topic_id):
    intent = Intent(topic_id=topic_id, commit_id="c1", plan=1, body={})
    await metadata.tables.save_intent(lease, intent)
    await metadata.tables.finish(lease, topic_id, "c1", {0: 5, 1: 10})
    assert await table_ends(metadata, topic_id) == [5, 10, 0]
    assert await metadata.tables.intent(topic_id) is None
    located = await metadata.extents.locate(TopicPartition(topic_id, 0), 5, 1 << 20)
    assert [extent.base_offset for extent in located.extents] == [4, 6, 8]


async def test_tables_have_rows_once_an_end_has_moved(metadata, lease, topic_id):
    assert not await metadata.tables.have_rows()
    await metadata.tables.finish(lease, topic_id, "c1", {1: 4})
    assert await metadata.tables.have_rows()


async def test_finishing_twice_is_finishing_once(metadata, lease, topic_id):
    for _ in range(2):
        await metadata.tables.finish(lease, topic_id, "c1", {0: 6, 1: 4})
    assert await table_ends(metadata, topic_id) == [6, 4, 0]


async def test_many_extents_are_forgotten_in_portions(
    metadata, lease, topic_id, clock, monkeypatch
):
    monkeypatch.setattr(references, "PORTION", 3)
    intent = Intent(topic_id=topic_id, commit_id="c1", plan=1, body={})
    await metadata.tables.save_intent(lease, intent)
    await metadata.tables.finish(lease, topic_id, "c1", {0: 10, 1: 10})
    assert await metadata.tables.intent(topic_id) is None
    found = await metadata.ledger.unreferenced("cost", before_ms=clock.wall_ms() + 1, limit=9)
    assert len(found) == 5


async def test_a_finish_that_stopped_between_portions_is_finished_by_repeating_it(
    metadata, lease, topic_id, monkeypatch
):
    monkeypatch.setattr(references, "PORTION", 3)
    intent = Intent(topic_id=topic_id, commit_id="c1", plan=1, body={})
    await metadata.tables.save_intent(lease, intent)

    def crash(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        crashing.setattr(tables, "_forget", crash)
        with pytest.raises(KeyboardInterrupt):
            await metadata.tables.finish(lease, topic_id, "c1", {0: 10, 1: 10})
    assert await table_ends(metadata, topic_id) == [10, 10, 0]
    assert await metadata.tables.intent(topic_id) == intent
    await metadata.tables.finish(lease, topic_id, "c1", {0: 10, 1: 10})
    assert await metadata.tables.intent(topic_id) is None


@pytest.mark.parametrize("end", [4, 11])
async def test_an_end_that_moves_back_or_beyond_the_log_is_refused_and_nothing_moves(
    metadata, lease, topic_id, end
):
    await metadata.tables.finish(lease, topic_id, "c1", {0: 5})
    with pytest.raises(Corrupt, match="only move forward"):
        await metadata.tables.finish(lease, topic_id, "c2", {0: end, 1: 10})
    assert await table_ends(metadata, topic_id) == [5, 0, 0]


async def test_the_table_end_never_passes_the_last_stable_offset(
    metadata, writer, lease, partition
):
    open_transaction = header(1, producer=7, sequence=0, transactional=True)
    await metadata.sequencer.commit(
        stored(writer, 1, (partition, [header(2), open_transaction, header(2)]))
    )
    with pytest.raises(Corrupt):
        await metadata.tables.finish(lease, partition.topic_id, "c1", {0: 3})
    await metadata.tables.finish(lease, partition.topic_id, "c1", {0: 2})
    assert await table_ends(metadata, partition.topic_id) == [2, 0, 0]


async def test_nothing_happens_under_a_lost_lease(metadata, lease, topic_id):
    lost = Lease(lease.name, lease.holder, lease.epoch - 1)
    intent = Intent(topic_id=topic_id, commit_id="c1", plan=1, body={})
    for call in (
        metadata.tables.save_intent(lost, intent),
        metadata.tables.finish(lost, topic_id, "c1", {0: 5}),
        metadata.tables.abandon(lost, topic_id, "c1"),
    ):
        with pytest.raises(Fenced):
            await call
    assert await table_ends(metadata, topic_id) == [0, 0, 0]
    assert await metadata.tables.intent(topic_id) is None


async def test_a_deleted_topic_takes_no_commit(metadata, lease, topic_id):
    await metadata.topics.delete(topic_id)
    for call in (
        metadata.tables.ends(topic_id),
        metadata.tables.finish(lease, topic_id, "c1", {0: 5}),
        metadata.tables.save_intent(
            lease, Intent(topic_id=topic_id, commit_id="c1", plan=1, body={})
        ),
    ):
        with pytest.raises(UnknownTopic):
            await call


async def test_deleting_a_topic_forgets_its_intent(metadata, lease, topic_id):
    intent = Intent(topic_id=topic_id, commit_id="c1", plan=1, body={})
    await metadata.tables.save_intent(lease, intent)
    await metadata.topics.delete(topic_id)
    assert await metadata.tables.intent(topic_id) is None
