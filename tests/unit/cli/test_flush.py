"""What a flush waits for, and when it says that it will not happen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from deltalake import DeltaTable

from lakestream_spark.app import RunningBroker
from lakestream_spark.cli.flush import FlushWait, _flush
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.steps import Step
from tests.support.clock import SimulatedClock
from tests.support.embedded import catalog_spec, embedded_lake, lake_settings
from tests.support.kafka import Sent, produce
from tests.support.sparkless import SparklessCompaction

BOTH = {"lakestream.table.formats": "iceberg,delta"}
WITHIN_S = 60.0


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
async def metadata(clock: SimulatedClock) -> AsyncIterator[Metadata]:
    opened = await open_metadata("sqlite://", clock=clock)
    yield opened
    await opened.close()


async def waiting(metadata: Metadata, clock: SimulatedClock, *scopes: str) -> asyncio.Task[None]:
    """A wait for a record that nobody moves, while compactions with these scopes run."""
    topic = await metadata.topics.create("orders")
    for topics in scopes:
        about = {"topics": topics}
        await metadata.jobs.beat(Job(id=topics, kind="compact", started_ms=0, about=about))
    wait = FlushWait(metadata, clock, topic, 120.0, 10.0)
    task = asyncio.create_task(wait.for_table({0: 1}))
    await asyncio.wait([task], timeout=0.5)
    return task


async def test_a_topic_that_no_running_compaction_covers_is_told_at_once(
    metadata: Metadata, clock: SimulatedClock
) -> None:
    task = await waiting(metadata, clock, "a*", "b*")
    assert task.done()
    with pytest.raises(Unavailable, match=r"no running compaction covers the topic, only a\*, b\*"):
        await task


@pytest.mark.parametrize("scopes", [(), ("*",), ("a*", "ord*")])
async def test_a_topic_that_some_compaction_covers_or_may_soon_cover_is_waited_for(
    metadata: Metadata, clock: SimulatedClock, scopes: tuple[str, ...]
) -> None:
    task = await waiting(metadata, clock, *scopes)
    assert not task.done()
    task.cancel()


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path) as embedded:
        yield embedded


@pytest.fixture
async def topic(lake: RunningBroker) -> Topic:
    made = await lake.metadata.topics.create("orders", config=BOTH)
    await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"v")] * 10)
    return made


def location(folder: Path, topic: Topic) -> str:
    with closing(StreamCatalog.open(catalog_spec(folder))) as tables:
        table = tables.load(tables.layout(topic.id, topic.name))
        assert table is not None
        return table.location()


async def drained(compaction: SparklessCompaction) -> None:
    try:
        await asyncio.to_thread(compaction.run_until_drained, WITHIN_S)
    finally:
        await asyncio.to_thread(compaction.close)


async def test_a_flush_is_not_done_before_delta_has_the_rows(
    lake: RunningBroker, tmp_path: Path, topic: Topic
) -> None:
    moved, go_on = Event(), Event()

    def hold(step: Step) -> None:
        if step is Step.ENDS_MOVED:
            moved.set()
            assert go_on.wait(WITHIN_S)

    compacting = asyncio.create_task(drained(SparklessCompaction(tmp_path, reached=hold)))
    try:
        assert await asyncio.to_thread(moved.wait, WITHIN_S)
        flushing = asyncio.create_task(
            _flush(lake.metadata, lake_settings(tmp_path), "orders", WITHIN_S)
        )
        await asyncio.sleep(2.0)
        assert not flushing.done()
        go_on.set()
        assert await flushing == {0: 10}
        assert DeltaTable(location(tmp_path, topic)).to_pyarrow_table().num_rows == 10
    finally:
        go_on.set()
        await compacting


async def test_a_delta_log_that_stays_away_is_told_in_a_sentence(
    lake: RunningBroker, tmp_path: Path, topic: Topic
) -> None:
    await drained(SparklessCompaction(tmp_path))
    settings = lake_settings(tmp_path)
    assert await _flush(lake.metadata, settings, "orders", 5.0) == {0: 10}
    log = Path(location(tmp_path, topic).removeprefix("file://")) / "_delta_log"
    log.rename(log.with_name("_elsewhere"))
    with pytest.raises(Unavailable, match="everything is in the Iceberg table, but Delta is late"):
        await _flush(lake.metadata, settings, "orders", 0.5)
