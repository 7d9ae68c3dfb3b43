"""Cells grow with the table ends, once; what others changed is taken down once."""

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.cells import Cell, CellChange, Ledger, TableChange
from tests.support.metadata import header, stored


@pytest.fixture
async def lease(metadata):
    return await metadata.leases.try_acquire("table", "me", 1)


@pytest.fixture
async def topic_id(metadata, writer, partition):
    """A topic with ten offsets in partition 0."""
    await metadata.sequencer.commit(stored(writer, 1, (partition, [header(10)])))
    return partition.topic_id


async def cells(metadata: Metadata, topic_id: TopicId) -> list[Cell]:
    return list((await metadata.cells.ledger(topic_id)).cells)


async def test_a_cell_grows_with_every_commit_and_not_when_one_is_repeated(
    metadata, lease, topic_id
):
    first = Cell(0, 0, 0, 4, 2, -5, ((2, 4),))
    second = Cell(0, 0, 4, 10, 5, 3, ((4, 5), (9, 10)))
    for end, cell in ((4, first), (4, first), (10, second), (10, second)):
        await metadata.tables.finish(lease, topic_id, "c", {0: end}, (), [cell])
    grown = Cell(0, 0, 0, 10, 7, -5 ^ 3, ((2, 5), (9, 10)))
    assert await cells(metadata, topic_id) == [grown]


async def test_a_cell_begins_anew_behind_a_commit_that_did_not_count(metadata, lease, topic_id):
    await metadata.tables.finish(lease, topic_id, "c1", {0: 2}, (), [Cell(0, 0, 0, 2, 2, 1)])
    await metadata.tables.finish(lease, topic_id, "c2", {0: 5})
    last = Cell(0, 0, 5, 9, 4, 7)
    await metadata.tables.finish(lease, topic_id, "c3", {0: 9}, (), [last])
    assert await cells(metadata, topic_id) == [last]


async def test_a_change_is_taken_down_once_and_goes_with_its_topic(metadata, topic_id):
    change = TableChange(
        snapshot_id=2**62,
        sequence_number=3,
        at_ms=5,
        operation="delete",
        engine="spark",
        cells=(CellChange(0, 0, 2, -(2**63), ((1, 2), (4, 5)), ()),),
    )
    await metadata.cells.record(topic_id, change)
    other = TableChange(snapshot_id=2**62, sequence_number=9, at_ms=9, operation="", engine="")
    await metadata.cells.record(topic_id, other)
    ledger = await metadata.cells.ledger(topic_id)
    assert (ledger.table_ends[0], ledger.changes) == (0, [change])
    await metadata.topics.delete(topic_id)
    assert await metadata.cells.ledger(topic_id) == Ledger({}, [], [])
