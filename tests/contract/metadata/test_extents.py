"""What the WAL's `ExtentIndex` port promises."""

import pytest

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.wal.ports import PartitionEnds
from tests.support.metadata import TIMESTAMP_MS, header, stored


@pytest.fixture
async def filled(metadata, writer, partition):
    """Six extents of 10 offsets and 100 bytes each, one second apart."""
    for n in range(6):
        batch = header(10, timestamp=TIMESTAMP_MS + 1000 * n)
        await metadata.sequencer.commit(stored(writer, n + 1, (partition, [batch])))
    return partition


async def finish(metadata: Metadata, partition: TopicPartition, end: int) -> None:
    lease = await metadata.leases.try_acquire("table", "me", 1)
    assert lease is not None
    await metadata.tables.finish(lease, partition.topic_id, "c", {partition.number: end})


async def bases(
    metadata: Metadata, partition: TopicPartition, offset: int, max_bytes: int
) -> list[int]:
    located = await metadata.extents.locate(partition, offset, max_bytes)
    return [extent.base_offset for extent in located.extents]


@pytest.mark.parametrize(
    ("offset", "max_bytes", "expected"),
    [
        (0, 1, [0]),
        (9, 1, [0]),
        (10, 1, [10]),
        (25, 300, [20, 30, 40]),
        (25, 299, [20, 30]),
        (59, 1 << 30, [50]),
        (60, 1 << 30, []),
        (61, 1 << 30, []),
        (-1, 1 << 30, []),
    ],
)
async def test_locate_begins_with_the_extent_that_holds_the_offset(
    metadata, filled, offset, max_bytes, expected
):
    assert await bases(metadata, filled, offset, max_bytes) == expected


async def test_locate_tells_where_the_bytes_are(metadata, writer, partition):
    other = TopicPartition(partition.topic_id, 1)
    segment = stored(writer, 1, (other, [header(size=70)]), (partition, [header(4, size=80)]))
    await metadata.sequencer.commit(segment)
    (extent,) = (await metadata.extents.locate(partition, 2, 1)).extents
    assert extent == (0, 4, segment.id, "cost", 48 + 70, 80, TIMESTAMP_MS, False)


async def test_locate_goes_on_beyond_one_page_of_rows(metadata, writer, partition):
    for n in range(150):
        await metadata.sequencer.commit(stored(writer, n + 1, (partition, [header(2)])))
    assert await bases(metadata, partition, 3, 1 << 30) == list(range(2, 300, 2))


async def test_what_is_in_the_table_is_not_located(metadata, filled):
    await finish(metadata, filled, 25)
    assert await bases(metadata, filled, 24, 1 << 30) == []
    assert await bases(metadata, filled, 25, 1 << 30) == [20, 30, 40, 50]
    ends = (await metadata.extents.locate(filled, 0, 1)).ends
    assert ends == PartitionEnds(log_start=0, table_end=25, last_stable=60, high_watermark=60)


async def test_an_unknown_partition_is_named(metadata, filled):
    missing = TopicPartition(filled.topic_id, 7)
    for call in (
        metadata.extents.locate(missing, 0, 1),
        metadata.extents.locate_timestamp(missing, 0, 0),
    ):
        with pytest.raises(UnknownTopic):
            await call


@pytest.mark.parametrize(
    ("after_ms", "from_offset", "expected"),
    [
        (0, 0, 0),
        (1, 0, 10),
        (3000, 0, 30),
        (5000, 0, 50),
        (5001, 0, None),
        (0, 35, 30),
        (0, 40, 40),
    ],
)
async def test_a_time_leads_to_the_first_extent_with_a_record_at_or_after_it(
    metadata, filled, after_ms, from_offset, expected
):
    located = await metadata.extents.locate_timestamp(filled, TIMESTAMP_MS + after_ms, from_offset)
    found = [extent.base_offset for extent in located.extents]
    assert found == ([] if expected is None else [expected])


async def test_times_are_looked_for_from_log_start_and_table_end_on(metadata, filled):
    await finish(metadata, filled, 12)
    located = await metadata.extents.locate_timestamp(filled, TIMESTAMP_MS, 0)
    assert located.extents[0].base_offset == 10
    await metadata.retention.delete_records(filled, 33)
    located = await metadata.extents.locate_timestamp(filled, TIMESTAMP_MS, 0)
    assert located.extents[0].base_offset == 30
