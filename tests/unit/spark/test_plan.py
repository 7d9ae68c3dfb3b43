"""Plans, their bounds, and the slices and tasks they are cut into."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.plan import NO_PLAN, bounded, slices_of, tasks_of
from lakestream_spark.spark.slices import Slice
from lakestream_spark.table.commit import lease_name
from tests.support.embedded import metadata_url
from tests.support.tables import acknowledge

MANY = 2**30
MIB = 1024 * 1024


@pytest.fixture
async def metadata(tmp_path: Path) -> AsyncIterator[Metadata]:
    opened = await open_metadata(metadata_url(tmp_path), clock=SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
async def topic(metadata: Metadata) -> Topic:
    return await metadata.topics.create("orders", partitions=2)


async def plan_everything(metadata: Metadata, topic: Topic, max_bytes: int = MANY) -> int:
    ranges = (await metadata.backlog.pending())[topic.id].ranges
    return await metadata.tables.create_plan(
        await bounded(metadata, {topic.id: ranges}, max_bytes, known={}), job="me"
    )


async def test_no_plan_has_no_slices(metadata: Metadata) -> None:
    assert await slices_of(metadata, NO_PLAN, MANY) == []


async def test_plan_covers_what_was_acknowledged_when_it_was_made(
    metadata: Metadata, topic: Topic
) -> None:
    await acknowledge(metadata, topic, [b"a", b"b"])
    plan = await plan_everything(metadata, topic)
    await acknowledge(metadata, topic, [b"after the plan"])
    (piece,) = await slices_of(metadata, plan, MANY)
    assert (piece.topic_name, piece.plan, piece.range) == ("orders", plan, PlannedRange(0, 0, 2))
    assert [(extent.base_offset, extent.next_offset) for extent in piece.extents] == [(0, 2)]
    assert Slice.from_json(piece.to_json()) == piece


async def test_what_the_table_has_by_now_is_left_out_of_an_old_plan(
    metadata: Metadata, topic: Topic
) -> None:
    await acknowledge(metadata, topic, [b"a", b"b"])
    first = await plan_everything(metadata, topic)
    await acknowledge(metadata, topic, [b"c"])
    second = await plan_everything(metadata, topic)
    lease = await metadata.leases.try_acquire(lease_name(topic.id), "test", 1.0)
    assert lease is not None
    await metadata.tables.finish(lease, topic.id, "commit", {0: 2})
    assert await slices_of(metadata, first, MANY) == []
    (left,) = await slices_of(metadata, second, MANY)
    assert left.range == PlannedRange(0, 2, 3)


async def test_deleted_topic_and_pruned_plan_leave_nothing_to_do(
    metadata: Metadata, topic: Topic
) -> None:
    await acknowledge(metadata, topic, [b"a"])
    plan = await plan_everything(metadata, topic)
    await metadata.topics.delete(topic.id)
    assert await slices_of(metadata, plan, MANY) == []
    await metadata.tables.prune_plans(plan + 1, job="me")
    assert await slices_of(metadata, plan, MANY) == []


async def test_a_long_backlog_is_planned_in_portions_and_cut_between_extents(
    metadata: Metadata, topic: Topic
) -> None:
    for _ in range(6):
        await acknowledge(metadata, topic, [bytes(1000)])
    (whole,) = await slices_of(metadata, await plan_everything(metadata, topic), MANY)
    size = whole.extents[0].length
    half = await slices_of(metadata, await plan_everything(metadata, topic, 3 * size), MANY)
    assert [piece.range for piece in half] == [PlannedRange(0, 0, 3)]
    pairs = await slices_of(metadata, await plan_everything(metadata, topic), 2 * size)
    assert [piece.range[1:] for piece in pairs] == [(0, 2), (2, 4), (4, 6)]
    assert all(piece.bytes == 2 * size for piece in pairs)
    tiny = await slices_of(metadata, await plan_everything(metadata, topic), 1)
    assert [piece.range[1:] for piece in tiny] == [(n, n + 1) for n in range(6)]


async def test_slices_of_a_range_are_even_and_a_great_extent_leaves_no_small_ones_behind(
    metadata: Metadata, topic: Topic
) -> None:
    for _ in range(5):
        await acknowledge(metadata, topic, [bytes(1000)])
    plan = await plan_everything(metadata, topic)
    size = (await slices_of(metadata, plan, MANY))[0].extents[0].length
    even = await slices_of(metadata, plan, 4 * size)
    assert [piece.range[1:] for piece in even] == [(0, 3), (3, 5)]
    await acknowledge(metadata, topic, [bytes(20_000)])
    for _ in range(3):
        await acknowledge(metadata, topic, [bytes(1000)])
    uneven = await slices_of(metadata, await plan_everything(metadata, topic), 4 * size)
    assert [piece.range[1:] for piece in uneven] == [(0, 4), (4, 6), (6, 9)]


async def test_small_slices_share_a_task_and_large_ones_have_their_own(
    metadata: Metadata, topic: Topic
) -> None:
    for _ in range(5):
        await acknowledge(metadata, topic, [bytes(100)])
    slices = await slices_of(metadata, await plan_everything(metadata, topic), 1)
    size = slices[0].bytes
    assert [len(task) for task in tasks_of(slices, 2 * size)] == [2, 2, 1]
    assert [len(task) for task in tasks_of(slices, 1)] == [1] * 5
    assert [piece for task in tasks_of(slices, 3 * size) for piece in task] == slices
    assert tasks_of([], 1) == []


async def test_a_batch_is_cut_so_that_every_core_has_work(metadata: Metadata, topic: Topic) -> None:
    for _ in range(4):
        await acknowledge(metadata, topic, [bytes(100)])
    slices = await slices_of(metadata, await plan_everything(metadata, topic), 1)
    large = [_of_bytes(piece, 20 * MIB) for piece in slices]
    assert [len(task) for task in tasks_of(large, 64 * MIB)] == [1] * 4
    many = slices * 100
    assert [len(task) for task in tasks_of(many, 64 * MIB)] == [50] * 8
    assert [piece for task in tasks_of(many, 64 * MIB) for piece in task] == many


def _of_bytes(piece: Slice, size: int) -> Slice:
    (extent,) = piece.extents
    return replace(piece, extents=(extent._replace(length=size),))
