"""Log starts: moved by settings and by deletion of records."""

import pytest

from lakestream_spark.core.errors import OffsetOutOfRange, UnknownTopic
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata import Metadata
from tests.support.metadata import header, stored


async def log_start(metadata: Metadata, partition: TopicPartition) -> int:
    return (await metadata.extents.locate(partition, 0, 1)).ends.log_start


@pytest.fixture
async def filled(metadata, writer, partition, clock):
    """Four extents of 10 offsets and 100 bytes, a minute apart; the newest is of now."""
    for n in range(4):
        batch = header(10, timestamp=clock.wall_ms())
        await metadata.sequencer.commit(stored(writer, n + 1, (partition, [batch])))
        await clock.advance(60 if n < 3 else 0)
    return partition


async def test_without_settings_everything_is_kept(metadata, filled, clock):
    await clock.advance(10_000_000)
    assert await metadata.retention.run() == 0
    assert await log_start(metadata, filled) == 0


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"retention.ms": "-1"}, 0),
        ({"retention.ms": "180000"}, 0),
        ({"retention.ms": "179999"}, 10),
        ({"retention.ms": "60000"}, 20),
        ({"retention.ms": "59999"}, 30),
        ({"retention.bytes": "-1"}, 0),
        ({"retention.bytes": "400"}, 0),
        ({"retention.bytes": "300"}, 10),
        ({"retention.bytes": "150"}, 20),
        ({"retention.bytes": "100"}, 30),
        ({"retention.bytes": "0"}, 40),
        ({"retention.ms": "60000", "retention.bytes": "100"}, 30),
        ({"retention.ms": "59999", "retention.bytes": "300"}, 30),
    ],
)
async def test_settings_move_the_log_start(metadata, filled, config, expected):
    await metadata.topics.alter_config(filled.topic_id, config)
    assert await metadata.retention.run() == (1 if expected else 0)
    assert await log_start(metadata, filled) == expected
    assert await metadata.retention.run() == 0


async def test_time_moves_the_log_start_up_to_the_high_watermark(metadata, filled, clock):
    await metadata.topics.alter_config(filled.topic_id, {"retention.ms": "0"})
    await clock.advance(1)
    await metadata.retention.run()
    assert await log_start(metadata, filled) == 40


@pytest.fixture
async def in_table(metadata, writer, clock):
    """Offsets 0 to 9, of now, are in the table; 10 to 19, a day old, are in the WAL."""
    topic = await metadata.topics.create("in-table", partitions=1)
    place = TopicPartition(topic.id, 0)
    for n, age_ms in enumerate((0, 86_400_000)):
        batch = header(10, timestamp=clock.wall_ms() - age_ms)
        await metadata.sequencer.commit(stored(writer, n + 1, (place, [batch])))
    lease = await metadata.leases.try_acquire("table", "test", 1.0)
    await metadata.tables.finish(lease, topic.id, "c", {0: 10})
    return place


async def test_an_old_record_in_the_wal_takes_no_newer_ones_in_the_table_with_it(
    metadata, in_table
):
    await metadata.topics.alter_config(in_table.topic_id, {"retention.ms": "3600000"})
    assert await metadata.retention.run() == 0
    assert await log_start(metadata, in_table) == 0
    # Once the table's own upkeep has come as far, the WAL is judged.
    await metadata.retention.delete_records(in_table, 10)
    assert await metadata.retention.run() == 1
    assert await log_start(metadata, in_table) == 20


async def test_a_wal_that_is_large_enough_alone_moves_the_log_start_past_the_table(
    metadata, in_table
):
    await metadata.topics.alter_config(in_table.topic_id, {"retention.bytes": "0"})
    await metadata.retention.run()
    assert await log_start(metadata, in_table) == 20


async def test_extents_stay_until_they_are_in_the_table(metadata, filled):
    await metadata.retention.delete_records(filled, 25)
    located = await metadata.extents.locate(filled, 0, 1 << 20)
    assert [extent.base_offset for extent in located.extents] == [0, 10, 20, 30]


async def test_a_run_is_bounded_and_the_next_one_goes_on(metadata, writer, clock):
    topic = await metadata.topics.create("t", partitions=5, config={"retention.ms": "0"})
    old = header(timestamp=clock.wall_ms() - 1)
    extents = [(TopicPartition(topic.id, index), [old]) for index in range(5)]
    await metadata.sequencer.commit(stored(writer, 1, *extents))
    moved = [await metadata.retention.run(limit=2) for _ in range(4)]
    assert moved == [2, 2, 1, 0]


async def test_deleting_records_moves_the_log_start_and_never_back(metadata, filled):
    assert await metadata.retention.delete_records(filled, 15) == 15
    assert await metadata.retention.delete_records(filled, 7) == 15
    assert await metadata.retention.delete_records(filled, -1) == 40
    assert await log_start(metadata, filled) == 40


@pytest.mark.parametrize("offset", [-2, 41])
async def test_deleting_beyond_the_log_is_refused(metadata, filled, offset):
    with pytest.raises(OffsetOutOfRange):
        await metadata.retention.delete_records(filled, offset)
    assert await log_start(metadata, filled) == 0


async def test_deleting_records_of_nothing_is_refused(metadata, filled):
    with pytest.raises(UnknownTopic):
        await metadata.retention.delete_records(TopicPartition(filled.topic_id, 8), 0)
