"""The reader: from the batch that holds the offset on, dense, checked, planned again if needed."""

import asyncio
from collections.abc import Sequence

import pytest

from lakestream_spark.core.errors import Corrupt, LakestreamError, OffsetOutOfRange, UnknownTopic
from lakestream_spark.core.ids import SegmentId, TopicId, TopicPartition
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.wal.ports import Located, Wanted
from lakestream_spark.wal.reader import ReadRequest, ReadResult
from tests.support.batches import make_batch
from tests.support.memory_log import MemoryLog, memory_log, records
from tests.support.segments import TOPIC_A

LOTS = 1 << 20


def key(log: MemoryLog, n: int) -> str:
    identity = log.writer.identity
    return segment_key(SegmentId(identity.broker_id, identity.broker_epoch, n))


async def test_a_read_over_several_segments_is_one_call_with_stamped_offsets() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        for values in ([b"a", b"b"], [b"c"], [b"d"]):
            await log.append(p, *values)
        result = await log.reader.read(p, 0, LOTS)
    assert records(result.data) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert result.next_offset == result.ends.high_watermark == 4


async def test_an_offset_inside_a_batch_gets_the_whole_batch() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        await log.append(p, b"b", b"c", b"d")
        result = await log.reader.read(p, 2, LOTS)
    assert records(result.data) == [(1, b"b"), (2, b"c"), (3, b"d")]


async def test_the_byte_bound_cuts_at_a_batch_but_one_always_comes() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await asyncio.gather(*(log.append(p, b"x" * 100) for _ in range(3)))
        one = await log.reader.read(p, 0, 1)
        two = await log.reader.read(p, 0, 2 * len(make_batch([b"x" * 100])))
    assert [offset for offset, _ in records(one.data)] == [0]
    assert [offset for offset, _ in records(two.data)] == [0, 1]
    assert two.next_offset == 2


async def test_the_high_watermark_is_readable_and_empty_and_beyond_is_out_of_range() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        assert (await log.reader.read(p, 1, LOTS)).data == b""
        for offset in (2, -1):
            with pytest.raises(OffsetOutOfRange, match=r"log_start=0, high_watermark=1"):
                await log.reader.read(p, offset, LOTS)


async def test_below_the_log_start_is_out_of_range_except_for_the_table() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a", b"b")
        await log.metadata.retention.delete_records(p, 1)
        with pytest.raises(OffsetOutOfRange):
            await log.reader.read(p, 0, LOTS)
        result = await log.reader.read(p, 0, LOTS, for_table=True)
    assert records(result.data) == [(0, b"a"), (1, b"b")]


async def test_below_the_table_end_the_answer_is_empty_and_says_where_the_table_ends() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        await log.append(p, b"b")
        await log.move_table_end(p, 1)
        result = await log.reader.read(p, 0, LOTS)
        assert (result.data, result.ends.table_end) == (b"", 1)
        assert records((await log.reader.read(p, 1, LOTS)).data) == [(1, b"b")]


async def test_one_bad_partition_is_a_value_and_the_others_are_served() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        nobody = TopicPartition(TopicId(TOPIC_A), 0)
        good, bad = await log.reader.read_many(
            [ReadRequest(p, 0, LOTS), ReadRequest(nobody, 0, LOTS)]
        )
    assert isinstance(good, ReadResult)
    assert isinstance(bad, UnknownTopic)


async def test_partitions_of_one_segment_are_fetched_in_one_call() -> None:
    async with memory_log() as log:
        ps = await log.topic("t", 8)
        await asyncio.gather(*(log.append(p, b"x") for p in ps))
        results = await log.reader.read_many([ReadRequest(p, 0, LOTS) for p in ps])
        assert not any(isinstance(result, LakestreamError) for result in results)
        assert log.store.range_calls == [(key(log, 1), 8)]


class CountedLocates:
    """Counts finished look-ups, so that a test knows when all readers want their bytes."""

    def __init__(self, log: MemoryLog) -> None:
        self._count = 0
        self._inner = log.metadata.extents.locate_many
        log.reader._index.locate_many = self._locate  # type: ignore[method-assign]

    async def _locate(self, wanted: Sequence[Wanted]) -> list[Located | UnknownTopic]:
        found = await self._inner(wanted)
        self._count += 1
        return found

    async def reach(self, count: int) -> None:
        while self._count < count:
            await asyncio.sleep(0.001)
        for _ in range(50):  # as many turns as a reader needs from its look-up to its request
            await asyncio.sleep(0)


async def test_readers_of_one_extent_share_one_request() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"x")
        log.store.ranges_open.clear()
        located = CountedLocates(log)
        reads = [asyncio.create_task(log.reader.read(p, 0, LOTS)) for _ in range(10)]
        await located.reach(10)
        log.store.ranges_open.set()
        results = await asyncio.gather(*reads)
        assert all(result.data == results[0].data for result in results)
        assert len(log.store.range_calls) == 1


async def test_the_tail_is_served_from_memory_without_a_request() -> None:
    async with memory_log(cache_bytes=1 << 20) as log:
        (p,) = await log.topic("t")
        await log.append(p, b"x")
        assert records((await log.reader.read(p, 0, LOTS)).data) == [(0, b"x")]
        assert log.store.range_calls == []


async def test_a_segment_reclaimed_between_plan_and_get_means_planning_again() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        await log.append(p, b"b")
        located = log.metadata.extents.locate_many
        reclaimer = await log.reclaimer(grace_ms=-1)

        async def locate_then_lose(wanted: Sequence[Wanted]) -> object:
            (plan,) = await located(wanted)
            if isinstance(plan, Located) and plan.ends.table_end == 0:
                await log.move_table_end(p, 2)
                await reclaimer.run_once()
            return [plan]

        log.reader._index.locate_many = locate_then_lose  # type: ignore[method-assign,assignment]
        result = await log.reader.read(p, 0, LOTS)
    assert (result.data, result.ends.table_end) == (b"", 2)


async def test_an_index_that_points_at_a_missing_object_is_data_loss_and_says_where() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        await log.store.delete([key(log, 1)])
        with pytest.raises(Corrupt, match=r"data loss.*offset=0, segment=1/\d+/1"):
            await log.reader.read(p, 0, LOTS)


async def test_damaged_bytes_are_never_served() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append(p, b"a")
        damaged = bytearray(await log.store.get(key(log, 1)))
        extent = (await log.metadata.extents.locate(p, 0, 1)).extents[0]
        damaged[extent.position + extent.length - 1] ^= 1
        await log.store.delete([key(log, 1)])
        await log.store.put(key(log, 1), bytes(damaged))
        with pytest.raises(Corrupt, match=r"fails its CRC.*WAL segment 1/\d+/1"):
            await log.reader.read(p, 0, LOTS)


@pytest.mark.parametrize("codec", list(Codec))
async def test_a_time_finds_the_first_record_at_or_after_it(codec: Codec) -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        for times in ([100, 300, 200], [250, 400], [150]):
            batch = make_batch([b"x"] * len(times), timestamps=times, codec=codec)
            await log.append_batch(p, batch)
        found = {t: await log.reader.offset_for_timestamp(p, t) for t in (0, 101, 301, 400, 401)}
        await log.metadata.retention.delete_records(p, 2)
        after_delete = await log.reader.offset_for_timestamp(p, 0)
    assert found == {
        0: TimestampedOffset(0, 100),
        101: TimestampedOffset(1, 300),
        301: TimestampedOffset(4, 400),
        400: TimestampedOffset(4, 400),
        401: None,
    }
    assert after_delete == TimestampedOffset(2, 200)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_the_newest_time_is_that_of_a_record_behind_the_log_start(codec: Codec) -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        for times in ([900, 300, 500, 500], [400], [450]):
            batch = make_batch([b"x"] * len(times), timestamps=times, codec=codec)
            await log.append_batch(p, batch)
        found = []
        for start in (0, 1, 3, 4, 5, 6):
            await log.metadata.retention.delete_records(p, start)
            found.append(await log.reader.offset_of_max_timestamp(p))
    assert found == [
        TimestampedOffset(0, 900),
        TimestampedOffset(2, 500),
        TimestampedOffset(3, 500),
        TimestampedOffset(5, 450),
        TimestampedOffset(5, 450),
        None,
    ]


async def test_a_time_in_a_missing_object_is_data_loss_and_not_an_endless_search() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append_batch(p, make_batch([b"x"], timestamps=[100]))
        await log.append_batch(p, make_batch([b"y"], timestamps=[200]))
        await log.store.delete([key(log, 1)])
        async with asyncio.timeout(10):
            with pytest.raises(Corrupt, match=r"data loss.*offset=0, segment=1/\d+/1"):
                await log.reader.offset_for_timestamp(p, 50)
            assert await log.reader.offset_for_timestamp(p, 150) == TimestampedOffset(1, 200)
            assert await log.reader.offset_of_max_timestamp(p) == TimestampedOffset(1, 200)


async def test_a_time_in_a_segment_that_is_in_the_table_by_now_is_looked_for_behind() -> None:
    async with memory_log() as log:
        (p,) = await log.topic("t")
        await log.append_batch(p, make_batch([b"x"], timestamps=[100]))
        await log.append_batch(p, make_batch([b"y"], timestamps=[200]))
        located = log.metadata.extents.locate_timestamp
        reclaimer = await log.reclaimer(grace_ms=-1)

        async def locate_then_lose(*asked: object) -> Located:
            found = await located(*asked)  # type: ignore[arg-type]
            if found.ends.table_end == 0:
                await log.move_table_end(p, 1)
                await reclaimer.run_once()
            return found

        log.reader._index.locate_timestamp = locate_then_lose  # type: ignore[method-assign,assignment]
        found = await log.reader.offset_for_timestamp(p, 50)
    assert found == TimestampedOffset(1, 200)
