"""The place of the tables is away: commits stop, the stream does not, and the tables catch up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakestream_spark.app import RunningBroker
from lakestream_spark.core import metrics
from tests.support.embedded import embedded_lake
from tests.support.kafka import Sent, consume, produce
from tests.support.sparkless import SparklessCompaction

pytestmark = pytest.mark.long


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path) as embedded:
        yield embedded


def compact(folder: Path) -> None:
    compaction = SparklessCompaction(folder, die_at=None, stop_at=None)
    compaction.run_until_drained()
    compaction.close()


async def test_an_outage_of_the_warehouse_stops_commits_and_nothing_else(lake, tmp_path):
    warehouse, away = tmp_path / "warehouse", tmp_path / "away"
    topic = await lake.metadata.topics.create("orders")
    before = [Sent(None, b"%d" % n) for n in range(10)]
    await asyncio.to_thread(produce, lake.bootstrap, "orders", before)
    await asyncio.to_thread(compact, tmp_path)
    warehouse.rename(away)
    warehouse.write_text("no folder any more")  # as when a volume is not mounted
    during = [Sent(None, b"%d" % n) for n in range(10, 20)]
    await asyncio.to_thread(produce, lake.bootstrap, "orders", during)
    failures = metrics.TABLE_FAILURES.of("orders")
    failed_before = failures.value
    compaction = SparklessCompaction(tmp_path, die_at=None, stop_at=None)
    try:
        running = asyncio.create_task(asyncio.to_thread(compaction.run_until_drained))
        while failures.value < failed_before + 2:
            await asyncio.sleep(0.05)
        assert metrics.TABLE_LAG_RECORDS.of("orders").now() == 10
        assert metrics.TABLE_LAG_BYTES.of().now() > 0
        # All the while, whatever the job itself waits for.
        for growing in (metrics.TABLE_LAG_SECONDS, metrics.TABLE_COMMIT_AGE):
            earlier = growing.of("orders").now()
            assert earlier > 0
            assert growing.of("orders").now() > earlier
        tail = await asyncio.to_thread(consume, lake.bootstrap, "orders", offset=10, count=10)
        assert [each.value for each in tail] == [each.value for each in during]
        await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"20")])
        assert (await lake.metadata.tables.ends(topic.id))[0].table_end == 10

        warehouse.unlink()
        away.rename(warehouse)
        await running
    finally:
        await asyncio.to_thread(compaction.close)
    # A drain ends at what it saw when it began; the next one moves what came meanwhile.
    assert (await lake.metadata.tables.ends(topic.id))[0].table_end == 20
    await asyncio.to_thread(compact, tmp_path)
    assert (await lake.metadata.tables.ends(topic.id))[0].table_end == 21
    assert metrics.TABLE_LAG_RECORDS.of("orders").now() == 0
    assert metrics.TABLE_LAG_SECONDS.of("orders").now() == 0
    assert metrics.TABLE_COMMIT_LAG.of("orders").now() > 0
    got = await asyncio.to_thread(consume, lake.bootstrap, "orders", offset=0, count=21)
    assert [each.value for each in got] == [b"%d" % n for n in range(21)]
