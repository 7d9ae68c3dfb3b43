"""Which job counts as live for `lakestream status`, and what is said of a topic without one."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lakestream_spark.cli.stalls import beating, judged, with_stalls
from lakestream_spark.cli.topic_status import TableSize, TopicStatus
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.jobs import Job

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
LATE = TopicStatus(
    topic="orders",
    partitions=1,
    high_watermark=9,
    table_end=4,
    lag_records=5,
    lag_seconds=3600.0,
    lag_target_seconds=60.0,
    wal_bytes=1,
    table=TableSize(),
    problems=(),
)


def job(name: str, *, topics: str = "*", age_ms: int = HOUR_MS, kind: str = "compact") -> Job:
    return Job(id=name, kind=kind, started_ms=NOW_MS - age_ms, about={"topics": topics})


@pytest.fixture
async def metadata() -> AsyncIterator[Metadata]:
    opened = await open_metadata("sqlite://", clock=SystemClock())
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("live", "sentence"),
    [
        ([], "no compaction is running for it: start `lakestream up`"),
        ([job("a", topics="pay*")], "no compaction is running for it"),
        ([job("a", topics="ord*")], "does not keep up: look into its log"),
        ([job("a", age_ms=1000), job("b")], "does not keep up"),
    ],
)
def test_a_stalled_topic_says_what_is_missing(live: list[Job], sentence: str) -> None:
    found = judged(LATE, live, NOW_MS)
    assert found.state == "red"
    (problem,) = found.problems
    assert sentence in problem
    assert "3,600 s behind its stream, lakestream.table.lag.ms asks for 60 s" in problem


def test_a_job_that_has_just_started_is_waited_for() -> None:
    found = judged(LATE, [job("a", age_ms=1000)], NOW_MS)
    assert (found.state, found.problems) == ("late", ())


def test_a_topic_that_is_red_already_keeps_its_own_reason() -> None:
    red = replace(LATE, problems=("somebody dropped the table",))
    assert judged(red, [], NOW_MS) == red


async def test_only_a_job_whose_beat_moves_counts_as_live(metadata: Metadata) -> None:
    for each in (job("living"), job("dead"), job("upkeep", kind="maintain")):
        await metadata.jobs.beat(each)

    async def live() -> None:
        while True:
            await asyncio.sleep(0.05)
            await metadata.jobs.beat(job("living"))

    life = asyncio.create_task(live())
    found = await beating(metadata.jobs, SystemClock(), 0.5)
    life.cancel()
    assert [each.id for each in found] == ["living"]


async def test_nobody_waits_for_a_beat_while_no_topic_is_late(metadata: Metadata) -> None:
    await metadata.jobs.beat(job("dead"))
    well = replace(LATE, lag_seconds=60.0)
    waiting = with_stalls([well], metadata.jobs, SystemClock(), session_s=600.0)
    assert await asyncio.wait_for(waiting, 5) == [well]
