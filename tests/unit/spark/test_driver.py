"""The driver's side of a compaction when things go wrong, and its end; without a JVM."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from lakestream_spark.app import RunningBroker
from lakestream_spark.core import metrics
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.problems import Problem, Problems
from lakestream_spark.metadata.tables import Intent
from lakestream_spark.spark.outcome import Kind, Outcome
from lakestream_spark.spark.slices import Slice
from lakestream_spark.table.append import Verdict
from lakestream_spark.table.commit import lease_name
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.steps import Step
from tests.support.embedded import catalog_spec, embedded_lake
from tests.support.kafka import Sent, produce
from tests.support.sparkless import SparklessCompaction, drained
from tests.support.stream_tables import StreamTable, append_of
from tests.support.tables import TableFiles, rows

BOTH = {"lakestream.table.formats": "iceberg,delta"}
WITHIN_S = 60.0


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path) as embedded:
        yield embedded


async def send(lake: RunningBroker, topic: str, count: int = 10) -> None:
    sent = [Sent(None, b"%d" % n) for n in range(count)]
    await asyncio.to_thread(produce, lake.bootstrap, topic, sent)


async def table_end(lake: RunningBroker, topic: str) -> int:
    found = await lake.metadata.topics.get(topic)
    return (await lake.metadata.tables.ends(found.id))[0].table_end


async def until(condition, what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def test_an_error_that_nobody_foresaw_rests_its_topic_and_no_other(
    lake: RunningBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await lake.metadata.topics.create("orders", config=BOTH)
    for name in ("orders", "other"):
        await send(lake, name)
    begun, mended = Event(), Event()

    def break_delta(step: Step) -> None:
        """First in a commit, then whenever it is looked at again."""
        if step is Step.TABLE_APPENDED:
            begun.set()
        if step is Step.DELTA_MIRRORED and begun.is_set() and not mended.is_set():
            raise ValueError("nobody thought of this")

    failures = metrics.TABLE_FAILURES.of("orders")
    before = failures.value
    running = asyncio.create_task(drained(SparklessCompaction(tmp_path, reached=break_delta)))
    try:

        async def is_told() -> bool:
            return bool(await lake.metadata.problems.list(topic.id))

        async def other_is_moved() -> bool:
            return await table_end(lake, "other") == 10

        await until(is_told, "no problem was reported")
        await until(other_is_moved, "the other topic waits")
        (problem,) = await lake.metadata.problems.list()
        assert problem.partition is None
        assert "ValueError: nobody thought of this" in problem.sentence
        assert failures.value > before
        assert any(record.exc_info for record in caplog.records), "no trace was logged"
    finally:
        mended.set()
        await running
    assert await lake.metadata.problems.list() == []
    await send(lake, "orders")
    await drained(SparklessCompaction(tmp_path))
    assert await table_end(lake, "orders") == 20


async def test_a_look_that_fails_in_a_way_nobody_foresaw_is_followed_by_the_next(
    lake: RunningBroker, tmp_path: Path
) -> None:
    await send(lake, "orders")
    (database,) = tmp_path.glob("*.db")
    with closing(sqlite3.connect(database, timeout=30)) as store:
        ((whole,),) = store.execute("SELECT config FROM topics WHERE name = 'orders'").fetchall()
        failures = metrics.LOOP_FAILURES.of("compact")
        before = failures.value
        store.execute("UPDATE topics SET config = 'no JSON'")
        store.commit()
        running = asyncio.create_task(drained(SparklessCompaction(tmp_path)))

        async def has_failed_twice() -> bool:
            return failures.value >= before + 2

        try:
            await until(has_failed_twice, "the look did not fail")
        finally:
            store.execute("UPDATE topics SET config = ?", (whole,))
            store.commit()
            await running
    assert await table_end(lake, "orders") == 10


class Emptied(SparklessCompaction):
    """Its first task finds that the segment of its slice is not there."""

    copied = False
    """Whether the index says by then that the records are elsewhere."""
    _begun = False

    def _attempt(self, given: pa.RecordBatch) -> list[dict[str, Any]]:
        if self._begun:
            return super()._attempt(given)
        self._begun = True
        (row,) = given.to_pylist()
        piece = Slice.from_json(row["slice"])
        segment = uuid4() if self.copied else piece.extents[0].segment_id
        gone = Outcome(
            topic_id=piece.topic_id,
            plan=piece.plan,
            range=piece.range,
            kind=Kind.GONE,
            missing=str(segment),
        )
        return [dict(each) for each in gone.to_arrow().to_pylist()]


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "lost"])
async def test_a_segment_that_was_copied_elsewhere_since_the_plan_is_no_loss(
    lake: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    await send(lake, "orders")
    reported: list[Problem] = []

    async def report(_: Problems, __: Lease, problem: Problem) -> None:
        reported.append(problem)

    monkeypatch.setattr(Problems, "report", report)
    compaction = Emptied(tmp_path)
    compaction.copied = copied
    await drained(compaction)
    assert await table_end(lake, "orders") == 10
    assert [each.offset for each in reported] == ([] if copied else [0])


@asynccontextmanager
async def producing(bootstrap: str, topic: str) -> AsyncIterator[None]:
    """A record every few milliseconds, all the while."""
    over = Event()

    def run() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        while not over.wait(0.02):
            producer.produce(topic, b"x" * 100)
            producer.poll(0)
        producer.flush(30)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        await asyncio.to_thread(thread.join)  # The broker has to answer meanwhile.


async def test_a_drain_ends_while_producers_go_on(lake: RunningBroker, tmp_path: Path) -> None:
    await send(lake, "orders", 50)
    async with producing(lake.bootstrap, "orders"):
        await asyncio.sleep(0.5)
        await drained(SparklessCompaction(tmp_path))
        first = await table_end(lake, "orders")
        assert first >= 50
        await drained(SparklessCompaction(tmp_path))
        assert await table_end(lake, "orders") > first


async def test_a_table_that_is_elsewhere_is_no_success_and_is_not_tried_all_the_time(
    lake: RunningBroker, tmp_path: Path
) -> None:
    await send(lake, "orders")
    topic = await lake.metadata.topics.get("orders")
    with closing(StreamCatalog.open(catalog_spec(tmp_path))) as tables:
        table = StreamTable(tables=tables, files=TableFiles.of(tmp_path, tables, topic))
        assert (
            table.append(10) is Verdict.APPLY
        )  # a commit that the metadata store knows nothing of
    compaction = SparklessCompaction(tmp_path)
    began = await lake.metadata.tables.create_plan({})
    with pytest.raises(AssertionError, match="left behind"):
        await drained(compaction, within_s=4)
    # The empty plan of its start, and one after each rest: 0.5 s, 1 s, 2 s.
    assert await lake.metadata.tables.create_plan({}) - began <= 7
    tally = compaction.driver.tally
    assert (tally.commits, tally.rows, tally.last_success_ms) == (0, 0, None)
    assert await table_end(lake, "orders") == 0


async def test_what_is_left_of_an_idle_topic_is_settled_once_and_others_are_left_alone(
    lake: RunningBroker, tmp_path: Path
) -> None:
    late = await lake.metadata.topics.create("late", config=BOTH)
    begun = await lake.metadata.topics.create("begun")
    quiet = await lake.metadata.topics.create("quiet")
    empty = await lake.metadata.topics.create("empty", config=BOTH)
    for name in ("late", "begun"):
        await send(lake, name)
    await drained(SparklessCompaction(tmp_path))
    with closing(StreamCatalog.open(catalog_spec(tmp_path))) as tables:
        files = TableFiles.of(tmp_path, tables, begun)
        table = tables.load(tables.layout(late.id, "late"))
        assert table is not None
        for entry in (Path(table.location().removeprefix("file://")) / "_delta_log").iterdir():
            entry.unlink()
    # A commit that never came to be: its range is in the table by another.
    append = append_of(files.write(rows(0, [b"x"] * 10)))
    lease = await lake.metadata.leases.try_acquire(lease_name(begun.id), "dead", 1.0)
    assert lease is not None
    body = append.to_body()
    intent = Intent(topic_id=begun.id, commit_id=str(uuid4()), plan=1, body=body)
    await lake.metadata.tables.save_intent(lease, intent)

    compaction = SparklessCompaction(tmp_path)
    try:
        await asyncio.to_thread(compaction.run_until_drained)
        assert await lake.metadata.tables.intent(begun.id) is None
        assert DeltaTable(table.location()).to_pyarrow_table().num_rows == 10
        names = [lease_name(topic.id) for topic in (late, begun, quiet, empty)]
        # Given back while the job runs, and never held.
        assert await lake.metadata.leases.look(names) == {names[0]: None, names[1]: None}
    finally:
        await asyncio.to_thread(compaction.close)


async def test_nobody_waits_for_a_batch_when_nobody_runs_it(
    lake: RunningBroker, tmp_path: Path
) -> None:
    await send(lake, "orders")
    compaction = SparklessCompaction(tmp_path)
    driver = compaction.driver
    try:
        await asyncio.to_thread(driver.join)
        driver.begin()

        async def is_planned() -> bool:
            plan = await lake.metadata.tables.latest_plan(job=compaction.job)
            return plan is not None and bool(plan.ranges)

        await until(is_planned, "no plan was made")
        began = time.monotonic()
        await asyncio.to_thread(lambda: driver.finish(WITHIN_S, is_running=lambda: False))
        assert time.monotonic() - began < 5
    finally:
        await asyncio.to_thread(compaction.close)
