"""Everything at once, for people: the borders of all partitions, what arrived, and the groups."""

import pytest

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.group_offsets import Commit, Committed, StoredGroup
from lakestream_spark.metadata.overview import Arrived, GroupNow
from tests.support.metadata import header, stored

SLOT = 3


@pytest.fixture
async def lease(metadata):
    return await metadata.leases.try_acquire("table", "me", 60.0)


async def test_partitions_of_live_topics_are_told_with_their_borders(
    metadata, writer, partition, lease
):
    gone = await metadata.topics.create("gone")
    await metadata.topics.delete(gone.id)
    await metadata.sequencer.commit(stored(writer, 1, (partition, [header(10)])))
    await metadata.tables.finish(lease, partition.topic_id, "c", {0: 4})
    found = {each.partition: each.ends for each in await metadata.overview.partitions()}
    other = TopicPartition(partition.topic_id, 2)
    assert found[partition] == (0, 4, 10, 10)
    assert found[other] == (0, 0, 0, 0)
    assert len(found) == 3


async def test_what_arrived_is_what_the_wal_holds_from_an_offset_on(metadata, writer, partition):
    other = TopicPartition(partition.topic_id, 1)
    for n in range(1, 4):
        batches = [(partition, [header(10, size=100)]), (other, [header(1, size=70)])]
        await metadata.sequencer.commit(stored(writer, n, *batches))
    ids = {each.partition: each.row_id for each in await metadata.overview.partitions()}
    asked = {ids[partition]: 10, ids[other]: 3}
    assert await metadata.overview.arrived(asked) == {
        ids[partition]: Arrived(20, 200),
        ids[other]: Arrived(0, 0),
    }
    assert await metadata.overview.arrived({}) == {}


async def test_a_group_is_behind_by_what_it_has_not_committed_above_the_log_start(
    metadata, writer, partition, lease
):
    places = [TopicPartition(partition.topic_id, n) for n in range(3)]
    for n, place in enumerate(places, 1):
        await metadata.sequencer.commit(stored(writer, n, (place, [header(10)])))
    await metadata.retention.delete_records(places[1], 4)
    # In the middle, below the log start, and beyond the end.
    offsets = zip(places, (3, 1, 12), strict=True)
    commits = [Commit("g", Committed(place, offset), 5) for place, offset in offsets]
    gone = await metadata.topics.create("gone")
    commits.append(Commit("g", Committed(TopicPartition(gone.id, 0), 1), 9))
    await metadata.group_offsets.commit(lease, SLOT, commits)
    await metadata.topics.delete(gone.id)
    await metadata.group_offsets.save(lease, SLOT, [StoredGroup("idle", "consumer", 1, 77)])
    await metadata.group_offsets.save(lease, SLOT, [StoredGroup("busy", "consumer", 1, None)])
    assert await metadata.overview.groups() == [
        GroupNow("busy", True, None, 0, None),
        GroupNow("g", False, "orders", 7 + 6, 5),
        GroupNow("idle", False, None, 0, None),
    ]
