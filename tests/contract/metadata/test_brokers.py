"""The registry of brokers: joining, beating, leaving, and taking out the dead."""

import pytest

from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import BrokerId
from lakestream_spark.metadata.brokers import Incarnation, Node, Registration
from tests.support.metadata import header, stored

FIRST = Registration(Node(1, "a", 9092, "zone-a"), Incarnation("m1", "first"), 5)
SECOND = Registration(Node(2, "b", 9093), Incarnation("m2", "second"), 6)
NEWCOMER = Registration(Node(1, "c", 9094), Incarnation("m1", "newcomer"), 7)


async def test_brokers_are_listed_as_they_joined(metadata):
    assert await metadata.brokers.join(SECOND) is None
    assert await metadata.brokers.join(FIRST) is None
    assert [row.registration for row in await metadata.brokers.list()] == [FIRST, SECOND]


async def test_a_beat_changes_the_row_of_its_broker_only(metadata):
    for broker in (FIRST, SECOND):
        await metadata.brokers.join(broker)
    before = await metadata.brokers.list()
    await metadata.brokers.beat(SECOND)
    after = await metadata.brokers.list()
    assert (after[0], after[1].beat) == (before[0], before[1].beat + 1)


async def test_a_newcomer_with_the_same_node_id_wins_and_the_old_one_learns_it(metadata):
    await metadata.brokers.join(FIRST)
    assert await metadata.brokers.join(NEWCOMER) == FIRST.incarnation
    with pytest.raises(Fenced) as fenced:
        await metadata.brokers.beat(FIRST)
    assert fenced.value.facts["replaced_by"] == "c:9094"
    await metadata.brokers.leave(FIRST)
    await metadata.brokers.beat(NEWCOMER)


async def test_joining_again_changes_nothing_but_the_address(metadata):
    await metadata.brokers.join(FIRST)
    moved = FIRST._replace(node=FIRST.node._replace(port=1))
    assert await metadata.brokers.join(moved) is None
    assert [row.registration for row in await metadata.brokers.list()] == [moved]


async def test_who_left_is_not_listed_and_may_leave_twice(metadata):
    await metadata.brokers.join(FIRST)
    await metadata.brokers.leave(FIRST)
    await metadata.brokers.leave(FIRST)
    assert await metadata.brokers.list() == []
    with pytest.raises(Fenced) as fenced:
        await metadata.brokers.beat(FIRST)
    assert fenced.value.facts["replaced_by"] is None


async def test_removing_a_dead_broker_fences_its_writers_and_no_others(metadata, partition):
    for broker in (FIRST, SECOND):
        await metadata.brokers.join(broker)
    dead = await metadata.writers.register(BrokerId(1), "cost")
    reclaim = await metadata.writers.register(BrokerId(1), "reclaim-cost")
    other = await metadata.writers.register(BrokerId(2), "cost")
    assert await metadata.brokers.remove((await metadata.brokers.list())[0])
    assert [each.identity for each in await metadata.writers.observe()] == [other]
    for fenced in (dead, reclaim):
        with pytest.raises(Fenced):
            await metadata.sequencer.commit(stored(fenced, 1, (partition, [header()])))


@pytest.mark.parametrize("change", ["beat", "join"])
async def test_a_broker_that_moved_since_it_was_seen_is_not_removed(metadata, change):
    await metadata.brokers.join(FIRST)
    writer = await metadata.writers.register(BrokerId(1), "cost")
    (seen,) = await metadata.brokers.list()
    if change == "beat":
        await metadata.brokers.beat(FIRST)
    else:
        await metadata.brokers.join(NEWCOMER)
    assert not await metadata.brokers.remove(seen)
    await metadata.writers.beat(writer)


async def test_the_store_answers_a_ping(metadata):
    await metadata.ping()
