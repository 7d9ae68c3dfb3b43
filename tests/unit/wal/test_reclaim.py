"""Reclaim: per segment, after its grace; orphans once fenced; stuck topics are moved out."""

import asyncio

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata.database import Execute, Transaction
from lakestream_spark.objectstore.keys import WAL_PREFIX, parse_segment_key, segment_key
from lakestream_spark.wal.format import Kind, decode_segment
from tests.support.clock import SimulatedClock
from tests.support.memory_log import PROFILE, MemoryLog, memory_log, records

LOTS = 1 << 20


async def keys(log: MemoryLog) -> list[str]:
    return [info.key async for info in log.store.list(WAL_PREFIX)]


async def test_a_segment_goes_when_all_its_records_are_in_the_table_and_the_grace_is_over() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        (p,) = await log.topic("t")
        reclaimer = await log.reclaimer(grace_ms=60_000)
        await log.append(p, b"a")
        await log.append(p, b"b")
        await log.move_table_end(p, 1)
        await clock.advance(59)
        assert (await reclaimer.run_once()).deleted == 0
        await clock.advance(2)
        assert (await reclaimer.run_once()).deleted == 1
        assert len(await keys(log)) == 1
        assert records((await log.reader.read(p, 1, LOTS)).data) == [(1, b"b")]


async def test_deleting_a_topic_frees_its_segments_and_no_others() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        (gone,) = await log.topic("gone")
        (kept,) = await log.topic("kept")
        await log.append(gone, b"a")
        await log.append(kept, b"b")
        await log.metadata.topics.delete(gone.topic_id)
        await clock.advance(61)
        await (await log.reclaimer()).run_once()
        assert records((await log.reader.read(kept, 0, LOTS)).data) == [(0, b"b")]
        assert len(await keys(log)) == 1


async def test_an_orphan_goes_only_after_its_writers_epoch_is_fenced() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        (committed,) = await keys(log)
        identity = await log.metadata.writers.register(BrokerId(2), PROFILE)
        orphan = parse_segment_key(committed)
        assert orphan is not None
        orphan = orphan._replace(broker_id=BrokerId(2), broker_epoch=identity.broker_epoch)
        await log.store.put(segment_key(orphan), b"uploaded, never committed")
        reclaimer = await log.reclaimer()
        await clock.advance(1_000_000)
        assert (await reclaimer.run_once()).orphans == 0
        await log.metadata.writers.fence(identity)
        assert (await reclaimer.run_once()).orphans == 1
        assert await keys(log) == [committed]


async def test_a_segment_of_an_unknown_newer_epoch_is_nobodys_to_delete() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        (committed,) = await keys(log)
        foreign = parse_segment_key(committed)
        assert foreign is not None
        await log.store.put(segment_key(foreign._replace(broker_epoch=10**6)), b"newer")
        assert (await (await log.reclaimer()).run_once()).orphans == 0


async def stuck_minority(log: MemoryLog) -> tuple[TopicPartition, TopicPartition]:
    """Three segments of a busy topic that a little of a stuck topic keeps alive."""
    (stuck,) = await log.topic("stuck")
    (busy,) = await log.topic("busy")
    for n in range(3):
        await asyncio.gather(log.append(stuck, b"s%d" % n), log.append(busy, b"x" * 1000))
    await log.move_table_end(busy, 3)
    return stuck, busy


async def test_a_stuck_topic_is_moved_out_of_old_segments_and_pins_only_its_own_bytes() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        stuck, _ = await stuck_minority(log)
        reclaimer = await log.reclaimer()
        await clock.advance(599)
        assert (await reclaimer.run_once()).evacuated == 0
        await clock.advance(60)
        assert (await reclaimer.run_once()).evacuated == 3
        assert records((await log.reader.read(stuck, 0, LOTS)).data) == [
            (0, b"s0"),
            (1, b"s1"),
            (2, b"s2"),
        ]
        await clock.advance(61)
        assert (await reclaimer.run_once()).deleted == 3
        (left,) = await keys(log)
        index = decode_segment(await log.store.get(left), where=left)
        assert index.kind is Kind.EVACUATED
        assert [(e.partition, e.base_offset) for e in index.entries] == [
            (stuck, 0),
            (stuck, 1),
            (stuck, 2),
        ]
        assert records((await log.reader.read(stuck, 0, LOTS)).data)[-1] == (2, b"s2")


async def replace_object(log: MemoryLog, key: str, data: bytes) -> None:
    await log.store.delete([key])
    await log.store.put(key, data)


async def places(log: MemoryLog, partition: TopicPartition) -> list[tuple[int, str]]:
    """Offset and object of each extent, as the index tells them."""
    located = await log.metadata.extents.locate(partition, 0, LOTS)
    return [(extent.base_offset, segment_key(extent.segment_id)) for extent in located.extents]


@pytest.mark.parametrize("damage", ["a byte", "truncated", "lost"])
async def test_a_damaged_extent_stays_where_it_is_and_keeps_no_other_from_being_moved(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        stuck, _ = await stuck_minority(log)
        (_, damaged), *others = await places(log, stuck)
        whole = await log.store.get(damaged)
        (first, *_) = (await log.metadata.extents.locate(stuck, 0, LOTS)).extents
        last = first.position + first.length - 1
        changed = whole[:last] + bytes([whole[last] ^ 1]) + whole[last + 1 :]
        await replace_object(log, damaged, changed if damage == "a byte" else whole[:last])
        if damage == "lost":
            await log.store.delete([damaged])
        reclaimer = await log.reclaimer()
        await clock.advance(660)
        assert (await reclaimer.run_once()).evacuated == 2
        moved = await places(log, stuck)
        assert moved[0] == (0, damaged)
        assert moved[1][1] == moved[2][1] not in dict(others).values()
        report = await reclaimer.run_once()
        assert (report.evacuated, report.finished) == (0, True)
        assert ("a WAL segment is damaged" in caplog.text) == (damage != "lost")

        await replace_object(log, damaged, whole)
        assert (await reclaimer.run_once()).evacuated == 1
        assert [value for _, value in records((await log.reader.read(stuck, 0, LOTS)).data)] == [
            b"s0",
            b"s1",
            b"s2",
        ]


async def test_of_a_damaged_segment_the_sound_extents_are_moved_out() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        (broken,) = await log.topic("broken")
        (sound,) = await log.topic("sound")
        (busy,) = await log.topic("busy")
        await asyncio.gather(
            log.append(broken, b"b"), log.append(sound, b"s"), log.append(busy, b"x" * 1000)
        )
        await log.move_table_end(busy, 1)
        ((_, key),) = await places(log, broken)
        assert await places(log, sound) == [(0, key)]
        (extent,) = (await log.metadata.extents.locate(broken, 0, LOTS)).extents
        data = bytearray(await log.store.get(key))
        data[extent.position + extent.length - 1] ^= 1
        await replace_object(log, key, bytes(data))
        reclaimer = await log.reclaimer()
        await clock.advance(660)
        assert (await reclaimer.run_once()).evacuated == 1
        assert await places(log, broken) == [(0, key)]
        assert await places(log, sound) != [(0, key)]
        report = await reclaimer.run_once()
        assert (report.evacuated, report.finished) == (0, True)
        assert key in await keys(log)


async def test_what_was_moved_out_is_as_old_as_before_and_is_not_moved_again() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        stuck, _ = await stuck_minority(log)
        before = (await log.metadata.backlog.pending())[stuck.topic_id].oldest_ms
        reclaimer = await log.reclaimer()
        await clock.advance(660)
        assert (await reclaimer.run_once()).evacuated == 3
        assert (await log.metadata.backlog.pending())[stuck.topic_id].oldest_ms == before
        await clock.advance(660)
        assert (await reclaimer.run_once()).evacuated == 0


async def test_segments_of_far_apart_times_are_not_moved_into_one() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        (long_stuck,) = await log.topic("long-stuck")
        (slow,) = await log.topic("slow")
        (busy,) = await log.topic("busy")
        await asyncio.gather(log.append(long_stuck, b"s"), log.append(busy, b"x" * 1000))
        await log.metadata.database.run(_a_day_older())
        await asyncio.gather(log.append(slow, b"s"), log.append(busy, b"x" * 1000))
        await log.move_table_end(busy, 2)
        before = await log.metadata.backlog.pending()
        reclaimer = await log.reclaimer()
        await clock.advance(660)
        first = await reclaimer.run_once()
        assert (first.evacuated, first.finished) == (1, False)
        second = await reclaimer.run_once()
        assert (second.evacuated, second.finished) == (1, True)
        assert await log.metadata.backlog.pending() == before


def _a_day_older() -> Transaction[None]:
    yield Execute("UPDATE segments SET created_ms = created_ms - 86400000")


async def test_a_run_is_bounded_and_the_next_one_goes_on() -> None:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    async with memory_log(clock) as log:
        (p,) = await log.topic("t")
        for n in range(5):
            await log.append(p, b"%d" % n)
        await log.move_table_end(p, 5)
        await clock.advance(61)
        reclaimer = await log.reclaimer(max_segments_per_run=2)
        reports = [await reclaimer.run_once() for _ in range(4)]
        assert [report.deleted for report in reports] == [2, 2, 1, 0]
        assert not reports[0].finished
        assert reports[-1].finished
        assert await keys(log) == []
