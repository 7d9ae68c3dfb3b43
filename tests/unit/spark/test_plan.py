from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.spark.plan import NO_PLAN, newest_plan, pending, slices_of
from lakestream_spark.spark.slices import Slice
from lakestream_spark.table.commit import lease_name
from tests.support.embedded import metadata_url
from tests.support.tables import acknowledge


@pytest.fixture
async def metadata(tmp_path: Path) -> AsyncIterator[Metadata]:
    opened = await open_metadata(metadata_url(tmp_path), clock=SystemClock())
    yield opened
    await opened.close()


async def test_nothing_pending_makes_no_plan(metadata: Metadata) -> None:
    await metadata.topics.create("orders")
    assert await pending(metadata) == {}
    assert await newest_plan(metadata) == NO_PLAN
    assert await slices_of(metadata, NO_PLAN) == []


async def test_plan_covers_what_is_acknowledged_and_not_in_the_table(metadata: Metadata) -> None:
    topic = await metadata.topics.create("orders", partitions=2)
    await acknowledge(metadata, topic, [b"a", b"b"])
    plan = await newest_plan(metadata)
    await acknowledge(metadata, topic, [b"after the plan"])
    (piece,) = await slices_of(metadata, plan)
    assert (piece.topic_name, piece.plan, piece.range) == ("orders", plan, PlannedRange(0, 0, 2))
    assert [(extent.base_offset, extent.next_offset) for extent in piece.extents] == [(0, 2)]
    assert Slice.from_json(piece.to_json()) == piece


async def test_what_the_table_has_by_now_is_left_out_of_an_old_plan(metadata: Metadata) -> None:
    topic = await metadata.topics.create("orders")
    await acknowledge(metadata, topic, [b"a", b"b"])
    first = await newest_plan(metadata)
    await acknowledge(metadata, topic, [b"c"])
    second = await newest_plan(metadata)
    lease = await metadata.leases.try_acquire(lease_name(topic.id), "test", 1.0)
    assert lease is not None
    await metadata.tables.finish(lease, topic.id, "commit", {0: 2})
    assert await slices_of(metadata, first) == []
    assert [piece.range for piece in await slices_of(metadata, second)] == [PlannedRange(0, 2, 3)]
    assert await newest_plan(metadata) == second + 1


async def test_deleted_topic_and_pruned_plan_leave_nothing_to_do(metadata: Metadata) -> None:
    topic = await metadata.topics.create("orders")
    await acknowledge(metadata, topic, [b"a"])
    plan = await newest_plan(metadata)
    await metadata.topics.delete(topic.id)
    assert await slices_of(metadata, plan) == []
    await metadata.tables.prune_plans(plan + 1)
    assert await slices_of(metadata, plan) == []
