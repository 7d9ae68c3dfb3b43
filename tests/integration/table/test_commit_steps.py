"""A committer dies, sleeps or races at every named step: each offset is in the table once."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakestream_spark.app import RunningBroker
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableState
from lakestream_spark.table.columns import OFFSET, PARTITION, VALUE
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.steps import Step
from tests.support.embedded import catalog_spec, embedded_lake
from tests.support.kafka import Sent, produce
from tests.support.sparkless import SparklessCompaction, drained

ROOT = Path(__file__).parents[3]
WITHIN_S = 120.0
BOTH = {"lakestream.table.formats": "iceberg,delta"}
COUNT = 60


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path) as embedded:
        yield embedded


async def send(lake: RunningBroker, first: int, count: int) -> None:
    """Records whose values are their offsets, in many small batches and segments."""
    for start in range(first, first + count, 10):
        values = [Sent(None, b"%d" % (start + n)) for n in range(10)]
        await asyncio.to_thread(produce, lake.bootstrap, "orders", values)


def compaction(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
    command = [sys.executable, "-m", "tests.support.sparkless", str(folder), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=pipe, stderr=pipe)


async def ended(process: subprocess.Popen[bytes]) -> int:
    _, errors = await asyncio.to_thread(process.communicate, None, WITHIN_S)
    if process.returncode > 0:
        raise AssertionError(errors.decode())
    return process.returncode


async def stopped(process: subprocess.Popen[bytes]) -> None:
    """Until the process has stopped itself."""
    deadline = time.monotonic() + WITHIN_S
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert process.poll() is None, "it ended before it stopped"
        assert time.monotonic() < deadline, "it did not reach the step in time"
        await asyncio.sleep(0.02)


async def check_table(lake: RunningBroker, folder: Path, count: int) -> Topic:
    """Offsets 0 … count - 1, each once, each with its value, in Iceberg and in Delta."""
    topic = await lake.metadata.topics.get("orders")
    with closing(StreamCatalog.open(catalog_spec(folder))) as tables:
        table = tables.load(tables.layout(topic.id, "orders"))
        assert table is not None
        rows = table.scan().to_arrow().sort_by(OFFSET)
        assert rows[OFFSET].to_pylist() == list(range(count))
        assert rows[VALUE].to_pylist() == [b"%d" % n for n in range(count)]
        assert rows[PARTITION].unique().to_pylist() == [0]
        assert TableState.of(table).ends == {0: count}
        delta = DeltaTable(table.location()).to_pyarrow_table().sort_by(OFFSET)
        assert delta[OFFSET].to_pylist() == list(range(count))
    assert (await lake.metadata.tables.ends(topic.id))[0].table_end == count
    assert await lake.metadata.tables.intent(topic.id) is None
    return topic


@pytest.mark.long
@pytest.mark.parametrize("step", list(Step), ids=lambda step: step.name)
async def test_a_committer_that_dies_at_a_step_is_finished_by_the_next(lake, tmp_path, step):
    await lake.metadata.topics.create("orders", config=BOTH)
    await send(lake, 0, COUNT)
    assert await ended(compaction(tmp_path, "--die-at", step.name)) == -signal.SIGKILL
    await send(lake, COUNT, 20)
    await drained(SparklessCompaction(tmp_path), WITHIN_S)
    await check_table(lake, tmp_path, COUNT + 20)


@pytest.mark.long
async def test_delta_that_a_crash_left_behind_is_repaired_at_the_next_start_of_an_idle_job(
    lake, tmp_path
):
    await lake.metadata.topics.create("orders", config=BOTH)
    await send(lake, 0, COUNT)
    await drained(SparklessCompaction(tmp_path), WITHIN_S)
    await send(lake, COUNT, 10)
    died = compaction(tmp_path, "--die-at", Step.ENDS_MOVED.name)
    assert await ended(died) == -signal.SIGKILL
    await drained(SparklessCompaction(tmp_path), WITHIN_S)
    await check_table(lake, tmp_path, COUNT + 10)


@pytest.mark.long
async def test_a_signal_to_stop_ends_the_job_after_its_batch_and_before_the_next_plan(
    lake, tmp_path
):
    lag = {"lakestream.table.lag.ms": "1000"}
    await lake.metadata.topics.create("orders", config={**BOTH, **lag})
    await send(lake, 0, COUNT)
    first = await lake.metadata.tables.create_plan({})
    watched = compaction(tmp_path, "--watched-at", Step.FILES_WRITTEN.name)
    try:
        assert watched.stdout is not None
        told = await asyncio.to_thread(watched.stdout.readline)
        assert told.decode().strip() == Step.FILES_WRITTEN.name
        await send(lake, COUNT, 10)
        await asyncio.sleep(1.5)  # By now these are due as well.
        watched.terminate()
        assert await ended(watched) == 0
    finally:
        watched.kill()
        await asyncio.to_thread(watched.wait)
    await check_table(lake, tmp_path, COUNT)
    # The empty plan of its start, and the one that was under way.
    assert await lake.metadata.tables.create_plan({}) == first + 3
    assert await lake.metadata.jobs.list() == []


@pytest.mark.long
@pytest.mark.parametrize(
    "step", [Step.FILES_WRITTEN, Step.INTENT_SAVED, Step.TABLE_APPENDED], ids=lambda step: step.name
)
async def test_a_zombie_that_wakes_after_its_lease_was_taken_changes_nothing(lake, tmp_path, step):
    await lake.metadata.topics.create("orders", config=BOTH)
    await send(lake, 0, COUNT)
    zombie = compaction(tmp_path, "--stop-at", step.name)
    try:
        await stopped(zombie)
        await drained(SparklessCompaction(tmp_path), WITHIN_S)
        await send(lake, COUNT, 20)
        zombie.send_signal(signal.SIGCONT)
        await ended(zombie)  # It finds out that it lost the table, and works on as a new holder.
    finally:
        zombie.kill()
        await asyncio.to_thread(zombie.wait)
    await drained(SparklessCompaction(tmp_path), WITHIN_S)
    await check_table(lake, tmp_path, COUNT + 20)


@pytest.mark.long
async def test_two_jobs_at_once_share_the_topics_and_lose_and_double_nothing(lake, tmp_path):
    for name in ("orders", "other", "third"):
        await lake.metadata.topics.create(name, config=BOTH)
    await send(lake, 0, COUNT)
    for round_ in range(3):
        both = [compaction(tmp_path) for _ in range(2)]
        await send(lake, COUNT + 20 * round_, 20)
        assert [await ended(each) for each in both] == [0, 0]
    await drained(SparklessCompaction(tmp_path), WITHIN_S)
    await check_table(lake, tmp_path, COUNT + 60)
