"""The WAL against its index, while both change."""

from random import Random
from typing import Any, cast

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Corrupt
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.verify.index import Placed, check_bytes, check_segments
from lakestream_spark.verify.pinned import Site
from tests.support.clock import SimulatedClock
from tests.support.memory_log import PROFILE, MemoryLog, memory_log
from tests.unit.wal.test_reclaim import keys, stuck_minority

LOTS = 1 << 20


def site_of(log: MemoryLog) -> Site:
    """What these checks need of it."""
    nothing = cast(Any, None)
    return Site(
        metadata=log.metadata,
        catalog=nothing,
        spec=nothing,
        stores={PROFILE: log.store},
        clock=log.clock,
        random=Random(0),
    )


async def listed(log: MemoryLog, partition: TopicPartition) -> list[Placed]:
    located = await log.metadata.extents.locate(partition, 0, LOTS)
    return [Placed(partition, extent) for extent in located.extents]


async def test_extents_that_were_copied_or_committed_meanwhile_are_not_lost() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        stuck, _ = await stuck_minority(log)
        placed = await listed(log, stuck)
        assert len(placed) == 3
        reclaimer = await log.reclaimer()
        await clock.advance(660)
        assert (await reclaimer.run_once()).evacuated == 3
        await clock.advance(61)
        assert (await reclaimer.run_once()).deleted == 3
        await check_segments(site_of(log), placed)
        await check_bytes(site_of(log), placed)
        await log.move_table_end(stuck, 3)
        await clock.advance(61)
        assert (await reclaimer.run_once()).deleted == 1
        assert await keys(log) == []
        await check_segments(site_of(log), placed)
        await check_bytes(site_of(log), placed)


async def test_a_copy_that_is_not_there_either_is_lost() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        stuck, _ = await stuck_minority(log)
        placed = await listed(log, stuck)
        reclaimer = await log.reclaimer()
        await clock.advance(660)
        await reclaimer.run_once()
        await log.store.delete(await keys(log))
        for check in (check_segments, check_bytes):
            with pytest.raises(Corrupt, match="data loss: the index points at a WAL segment"):
                await check(site_of(log), placed)
