"""What the WAL's `SegmentLedger` port promises."""

import pytest

from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import BrokerId, SegmentId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.wal.ports import MovedExtent
from lakestream_spark.wal.segment import StoredSegment, WriterIdentity
from tests.support.metadata import header, stored

LATER = 1 << 50


@pytest.fixture
async def lease(metadata):
    return await metadata.leases.try_acquire("table", "me", 1)


def evacuated(writer: WriterIdentity, n: int) -> StoredSegment:
    return StoredSegment(
        id=SegmentId(writer.broker_id, writer.broker_epoch, n),
        profile=writer.profile,
        created_ms=5,
        size=1000,
        extents=(),
    )


async def unreferenced(
    metadata: Metadata, *, before_ms: int = LATER, limit: int = 10, profile: str = "cost"
) -> list[SegmentId]:
    found = await metadata.ledger.unreferenced(profile, before_ms=before_ms, limit=limit)
    return [candidate.segment_id for candidate in found]


async def test_a_segment_is_unreferenced_when_its_last_extent_is_in_the_table(
    metadata, writer, partition, lease, clock
):
    other = TopicPartition(partition.topic_id, 1)
    segment = stored(writer, 1, (partition, [header(2)]), (other, [header(2)]))
    await metadata.sequencer.commit(segment)
    await metadata.tables.finish(lease, partition.topic_id, "c1", {0: 2})
    assert await unreferenced(metadata) == []
    await clock.advance(10)
    emptied_ms = clock.wall_ms()
    await metadata.tables.finish(lease, partition.topic_id, "c2", {1: 2})
    assert await unreferenced(metadata, before_ms=emptied_ms) == []
    assert await unreferenced(metadata, before_ms=emptied_ms + 1) == [segment.id]
    assert await unreferenced(metadata, profile="latency") == []


async def test_unreferenced_segments_come_oldest_first_and_bounded(
    metadata, writer, partition, lease, clock
):
    for n in (1, 2, 3):
        await metadata.sequencer.commit(stored(writer, n, (partition, [header()])))
    for end in (1, 2, 3):
        await clock.advance(1)
        await metadata.tables.finish(lease, partition.topic_id, "c", {0: end})
    assert [segment_id.n for segment_id in await unreferenced(metadata, limit=2)] == [1, 2]


async def test_only_unreferenced_segments_are_forgotten(metadata, writer, partition, lease):
    live = stored(writer, 2, (partition, [header()]))
    for segment in (dead := stored(writer, 1, (partition, [header()])), live):
        await metadata.sequencer.commit(segment)
    await metadata.tables.finish(lease, partition.topic_id, "c", {0: 1})
    await metadata.ledger.forget([live.id, dead.id, SegmentId(BrokerId(8), 8, 8)])
    assert await unreferenced(metadata) == []
    assert len(await metadata.ledger.live_extents([live.id])) == 1


async def test_orphans_are_uncommitted_segments_of_fenced_epochs_only(metadata, writer, partition):
    await metadata.sequencer.commit(stored(writer, 1, (partition, [header()])))
    live = await metadata.writers.register(BrokerId(2), "cost")
    found = [SegmentId(writer.broker_id, writer.broker_epoch, n) for n in (1, 2)]
    found += [SegmentId(live.broker_id, live.broker_epoch, 1)]
    assert await metadata.ledger.orphans("cost", found) == []
    await metadata.writers.register(writer.broker_id, "cost")
    assert await metadata.ledger.orphans("cost", found) == [found[1]]
    await metadata.writers.fence(live)
    assert await metadata.ledger.orphans("cost", found) == [found[1], found[2]]


async def test_segments_of_epochs_the_store_never_gave_out_are_nobodys_orphans(metadata, writer):
    await metadata.writers.fence(writer)
    stranger = SegmentId(BrokerId(2), writer.broker_epoch, 1)
    newer = SegmentId(writer.broker_id, writer.broker_epoch + 5, 1)
    assert await metadata.ledger.orphans("cost", [stranger, newer]) == []


async def test_mostly_dead_segments_are_found_by_the_share_that_lives(
    metadata, writer, partition, lease
):
    other = TopicPartition(partition.topic_id, 1)
    batches = [header(size=300)], [header(size=100)]
    segment = stored(writer, 1, (partition, batches[0]), (other, batches[1]), created_ms=50)
    await metadata.sequencer.commit(segment)

    async def found(share: float, before_ms: int = 51) -> list[tuple[SegmentId, int]]:
        dead = await metadata.ledger.mostly_dead(
            "cost", before_ms=before_ms, max_live_share=share, limit=5
        )
        return [(candidate.segment_id, candidate.live_bytes) for candidate in dead]

    assert await found(0.5) == []
    await metadata.tables.finish(lease, partition.topic_id, "c1", {0: 1})
    assert await found(0.5) == [(segment.id, 100)]
    assert await found(0.1) == []
    assert await found(0.5, before_ms=50) == []
    await metadata.tables.finish(lease, partition.topic_id, "c2", {1: 1})
    assert await found(1.0) == []


async def test_live_extents_tell_what_keeps_a_segment(metadata, writer, partition, lease):
    other = TopicPartition(partition.topic_id, 1)
    segment = stored(writer, 1, (partition, [header(2)]), (other, [header(3)]))
    await metadata.sequencer.commit(segment)
    await metadata.tables.finish(lease, partition.topic_id, "c", {0: 2})
    (live,) = await metadata.ledger.live_extents([segment.id])
    assert live.partition == other
    assert live.location == (await metadata.extents.locate(other, 0, 1)).extents[0]


async def test_live_extents_of_several_segments_come_together(metadata, writer, partition):
    segments = [stored(writer, n, (partition, [header(2)])) for n in (1, 2, 3)]
    for segment in segments:
        await metadata.sequencer.commit(segment)
    live = await metadata.ledger.live_extents([segments[0].id, segments[2].id])
    assert [extent.location.base_offset for extent in live] == [0, 4]


async def test_repointed_extents_lie_in_the_new_segment_and_the_old_one_is_free(
    metadata, writer, partition
):
    old = stored(writer, 1, (partition, [header(2)]))
    await metadata.sequencer.commit(old)
    new = evacuated(writer, 2)
    await metadata.ledger.repoint(new, [MovedExtent(partition, 0, old.id, 400)])
    (extent,) = (await metadata.extents.locate(partition, 1, 1)).extents
    assert (extent.segment_id, extent.position, extent.length) == (new.id, 400, 100)
    assert await unreferenced(metadata) == [old.id]


async def test_repeating_a_repoint_changes_nothing(metadata, writer, partition):
    old = stored(writer, 1, (partition, [header(2)]))
    await metadata.sequencer.commit(old)
    moved = [MovedExtent(partition, 0, old.id, 400)]
    for _ in range(2):
        await metadata.ledger.repoint(evacuated(writer, 2), moved)
    assert await unreferenced(metadata) == [old.id]


async def test_extents_that_went_to_the_table_meanwhile_are_not_repointed(
    metadata, writer, partition, lease
):
    old = stored(writer, 1, (partition, [header(2)]))
    await metadata.sequencer.commit(old)
    await metadata.tables.finish(lease, partition.topic_id, "c", {0: 2})
    new = evacuated(writer, 2)
    await metadata.ledger.repoint(new, [MovedExtent(partition, 0, old.id, 400)])
    assert sorted(await unreferenced(metadata)) == [old.id, new.id]


async def test_a_fenced_writer_cannot_repoint(metadata, writer, partition):
    old = stored(writer, 1, (partition, [header(2)]))
    await metadata.sequencer.commit(old)
    await metadata.writers.fence(writer)
    with pytest.raises(Fenced):
        await metadata.ledger.repoint(
            evacuated(writer, 2), [MovedExtent(partition, 0, old.id, 400)]
        )
    (extent,) = (await metadata.extents.locate(partition, 0, 1)).extents
    assert extent.segment_id == old.id
