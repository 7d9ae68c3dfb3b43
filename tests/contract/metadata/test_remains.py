"""What deleted topics leave behind goes in portions, and is found by whoever looks next."""

import asyncio

import pytest

from lakestream_spark.core.errors import Unavailable, UnknownTopic
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata import Metadata, references, remains
from lakestream_spark.metadata.cells import Cell, TableChange
from lakestream_spark.metadata.database import Fetch, Transaction
from lakestream_spark.metadata.remains import Remains
from lakestream_spark.metadata.tables import Quarantined
from lakestream_spark.wal.ports import MovedExtent
from lakestream_spark.wal.segment import StoredSegment
from tests.support.metadata import die_while_deleting, header, stored

TABLES = ("extents", "producers", "cells", "quarantine", "table_changes")
SEGMENTS = 7


def _count(table: str) -> Transaction[int]:
    rows = yield Fetch(f"SELECT COUNT(*) FROM {table}")
    return int(rows[0][0])


async def counts(metadata: Metadata) -> dict[str, int]:
    return {table: await metadata.database.read(_count(table)) for table in TABLES}


@pytest.fixture
async def kept(metadata):
    return TopicPartition((await metadata.topics.create("kept")).id, 0)


@pytest.fixture
async def filled(metadata, writer, partition, kept):
    """Two partitions with extents, producers and rows in a table, beside another topic."""
    second = TopicPartition(partition.topic_id, 1)
    for n in range(SEGMENTS):
        batches = [header(producer=n, sequence=0)]
        extents = [(each, batches) for each in (partition, second, kept)]
        await metadata.sequencer.commit(stored(writer, n + 1, *extents))
    lease = await metadata.leases.try_acquire("table", "me", 1)
    aside = [Quarantined(0, 0, 1, "somewhere", "why")]
    cells = [Cell(0, 0, 0, 1, 1, 1)]
    change = TableChange(snapshot_id=1, sequence_number=1, at_ms=1, operation="o", engine="e")
    for topic_id in (partition.topic_id, kept.topic_id):
        await metadata.tables.finish(lease, topic_id, "c", {0: 1}, aside, cells)
        await metadata.cells.record(topic_id, change)
    return partition


async def is_all_forgotten(metadata: Metadata) -> bool:
    """Whether what is left is that of the topic `kept`."""
    expected = {"extents": SEGMENTS - 1, "producers": SEGMENTS}
    return await counts(metadata) == dict.fromkeys(TABLES, 1) | expected


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr(references, "PORTION", 3)
    monkeypatch.setattr(remains, "PORTION", 3)


async def test_a_long_backlog_is_forgotten_in_portions(
    metadata, filled, small_portions, monkeypatch
):
    forgotten = []
    original = references.forget_extents

    def counting(portion, now_ms):
        found = yield from original(portion, now_ms)
        forgotten.append(found)

    monkeypatch.setattr(remains, "forget_extents", counting)
    await metadata.topics.delete(filled.topic_id)
    assert sum(forgotten) == 2 * SEGMENTS - 1
    assert max(forgotten) == 3
    assert await is_all_forgotten(metadata)


async def test_who_deletes_a_very_long_backlog_does_not_wait_for_its_end(
    metadata, filled, small_portions, monkeypatch
):
    monkeypatch.setattr(remains, "_AT_ONCE", 4)  # It has five.
    before = await counts(metadata)
    await metadata.topics.delete(filled.topic_id)
    assert await counts(metadata) == before
    with pytest.raises(UnknownTopic):
        await metadata.extents.locate(filled, 1, 1)
    await metadata.topics.forget_remains()
    assert await is_all_forgotten(metadata)


async def test_a_deletion_that_stopped_half_way_is_finished_by_whoever_looks_next(metadata, filled):
    before = await counts(metadata)
    await die_while_deleting(metadata, filled.topic_id)
    assert await counts(metadata) == before
    with pytest.raises(UnknownTopic):
        await metadata.extents.locate(filled, 1, 1)
    assert list(await metadata.backlog.pending()) != [filled.topic_id]
    await metadata.topics.forget_remains()
    assert await is_all_forgotten(metadata)


async def test_a_store_that_does_not_answer_any_more_has_deleted_the_topic_all_the_same(
    metadata, filled, monkeypatch
):
    async def unavailable(*args):
        raise Unavailable("gone")

    with monkeypatch.context() as failing:
        failing.setattr(Remains, "forget_topic", unavailable)
        await metadata.topics.delete(filled.topic_id)
    await metadata.topics.forget_remains()
    assert await is_all_forgotten(metadata)


async def test_a_topic_made_anew_by_the_same_name_keeps_its_records(metadata, writer, filled):
    await die_while_deleting(metadata, filled.topic_id)
    anew = TopicPartition((await metadata.topics.create("orders", partitions=3)).id, 0)
    batch = header(producer=0, sequence=0)
    await metadata.sequencer.commit(stored(writer, SEGMENTS + 1, (anew, [batch])))
    refused = stored(writer, SEGMENTS + 2, (filled, [batch]))
    assert (await metadata.sequencer.commit(refused)).extents[0].exceptions
    await metadata.topics.forget_remains()
    (extent,) = (await metadata.extents.locate(anew, 0, 1)).extents
    assert extent.segment_id.n == SEGMENTS + 1
    assert (await counts(metadata))["producers"] == SEGMENTS + 1


async def test_several_may_finish_deletions_at_once(metadata, filled, small_portions):
    await die_while_deleting(metadata, filled.topic_id)
    await asyncio.gather(*(metadata.topics.forget_remains() for _ in range(4)))
    assert await is_all_forgotten(metadata)


async def test_what_a_deleted_topic_left_is_not_repointed(metadata, writer, partition, clock):
    old = stored(writer, 1, (partition, [header()]))
    await metadata.sequencer.commit(old)
    await die_while_deleting(metadata, partition.topic_id)
    new = StoredSegment(
        id=old.id._replace(n=2), profile="cost", created_ms=0, size=1000, extents=()
    )
    await metadata.ledger.repoint(new, [MovedExtent(partition, 0, old.id, 400)])
    free = await metadata.ledger.unreferenced("cost", before_ms=clock.wall_ms() + 1, limit=9)
    assert [each.segment_id for each in free] == [new.id]
    await metadata.topics.forget_remains()


async def test_a_commit_does_not_forget_what_a_topic_deleted_meanwhile_left(
    metadata, filled, small_portions, monkeypatch
):
    lease = await metadata.leases.try_acquire("table", "me", 1)
    original = metadata.database.run
    ran = []

    async def run(tx):
        ran.append(await original(tx))
        if len(ran) == 1:
            monkeypatch.undo()
            await die_while_deleting(metadata, filled.topic_id)
        return ran[-1]

    monkeypatch.setattr(metadata.database, "run", run)
    await metadata.tables.finish(lease, filled.topic_id, "c", {0: SEGMENTS})
    assert len(ran) == 1
    assert (await counts(metadata))["extents"] == 3 * SEGMENTS - 2 - 3
    await metadata.topics.forget_remains()
