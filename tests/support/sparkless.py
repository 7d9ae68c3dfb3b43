"""A compaction without a JVM: the real driver, planner and tasks, this module in Spark's place.

    python -m tests.support.sparkless DATA [--conf FILE]
        [--die-at STEP | --stop-at STEP | --for-ever SEED | --watched-at STEP]

A program that is made to be killed: at a named step it kills or stops itself. Without Spark it
starts in a moment, so that every step can be tried in every run.

It ends when everything is in the tables, or, for ever, when it is told to. Then it does what Spark
may do as well: by a seed it runs tasks twice and takes either's results, hands results over again,
and repeats whole batches. Watched, it lives as the real job does until a signal stops it; at the
step it says so on its standard output and waits for the signal.
"""

import argparse
import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lakestream_spark.cli.signals import stopped_by_signals
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.logs import configure
from lakestream_spark.core.retry import Backoff
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.sqlite import SqliteDatabase
from lakestream_spark.settings.specs import catalog_spec, wal_stores
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.driver import CompactDriver
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.plan import NO_PLAN, slices_of, tasks_of
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.task import CompactTask
from lakestream_spark.spark.watch import watch
from lakestream_spark.table.commit import TableCommitter
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.steps import Reached, Step, unobserved
from tests.support.chaos_life import Life
from tests.support.lake_place import Place

SESSION_S = 1.0
POLICY = CompactPolicy(task_bytes=4096, batch_bytes=64 * 1024, poll_s=0.02, session_s=SESSION_S)
_ODDS = 0.1
_DRAIN_S = 600.0
_log = logging.getLogger("lakestream_spark.sparkless")


class _Row:
    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def asDict(self) -> dict[str, Any]:  # noqa: N802
        return self._fields


class _Results:
    """What the driver asks of a DataFrame."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    def collect(self) -> list[_Row]:
        return [_Row(row) for row in self._rows]


class SparklessQuery:
    """Batches in a thread, as whoever watches a query sees them."""

    def __init__(self, batch: Callable[[], None]) -> None:
        self._batch = batch
        self._over = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, name="sparkless-query", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(0.01):
                self._batch()
        except Exception as error:
            self._error = error


async def drained(compaction: "SparklessCompaction", within_s: float = 60.0) -> None:
    """Run to the end of the backlog, and close."""
    try:
        await asyncio.to_thread(compaction.run_until_drained, within_s)
    finally:
        await asyncio.to_thread(compaction.close)


class SparklessCompaction:
    """Runs batches one after the other, as a query does."""

    def __init__(
        self,
        place: Path | Place,
        *,
        die_at: Step | None = None,
        stop_at: Step | None = None,
        random: Random | None = None,
        policy: CompactPolicy = POLICY,
        reached: Reached = unobserved,
        drain: bool | None = None,
    ) -> None:
        own = place if isinstance(place, Place) else Place(data=str(place))
        settings = own.settings
        self._policy = policy
        clock = SystemClock()
        self._die_at, self._stop_at = die_at, stop_at
        self._observe = reached
        self._random = random
        self._loop = BackgroundLoop()
        self._metadata: Metadata = self._loop.run(open_metadata(settings.metadata.url, clock=clock))
        self._catalog = StreamCatalog.open(catalog_spec(settings))
        committer = TableCommitter(
            self._metadata.tables,
            self._catalog,
            clock=clock,
            random=Random(),
            backoff=Backoff(total_s=2.0),
            reached=self._reached,
        )
        self._job = f"compact-{uuid4()}"
        scope = Scope(job=self._job, drain=random is None if drain is None else drain)
        self._driver = CompactDriver(self._metadata, committer, scope, policy, clock, self._loop)
        self._task = CompactTask(stores=wal_stores(settings), catalog=catalog_spec(settings))
        self._done = NO_PLAN

    @property
    def driver(self) -> CompactDriver:
        return self._driver

    @property
    def job(self) -> str:
        return self._job

    def run_until_drained(self, within_s: float = 120.0) -> None:
        """Batch after batch; the table has everything at the end."""
        deadline = time.monotonic() + within_s
        self._driver.join()
        self._driver.begin()
        while not (self._driver.is_drained and not self._driver.left_behind):
            assert time.monotonic() < deadline, f"left behind: {self._driver.left_behind}"
            self._next_batch()
            time.sleep(0.01)

    def run_watched(self, stop: Event) -> None:
        """Until it is told to stop, in the same way as with Spark."""
        self._driver.join()
        self._driver.begin()
        watch(lambda: SparklessQuery(self._next_batch), self._driver, stop, drain=False)

    def run_while(self, life: Life) -> None:
        """Batch after batch, until it is told to stop; a plan made meanwhile is left alone."""
        self._driver.join()
        self._driver.begin()
        done = NO_PLAN
        while life.goes_on:
            try:
                plan = self._loop.run(self._metadata.tables.latest_plan(job=self._job))
                if plan is not None and plan.number != done:
                    self._batch(plan.number)
                    done = NO_PLAN if self._happens() else plan.number
            except LakestreamError:
                # Spark would end the query, and it would be started again.
                _log.exception("a batch failed")
                self._driver.batch_is_over()
            time.sleep(0.01)

    def close(self) -> None:
        self._driver.close()
        self._catalog.close()
        self._loop.run(self._metadata.close())
        self._loop.close()

    def _next_batch(self) -> None:
        """The newest plan, unless it is done."""
        plan = self._loop.run(self._metadata.tables.latest_plan(job=self._job))
        if plan is not None and plan.number != self._done:
            self._done = plan.number
            self._batch(plan.number)

    def _batch(self, plan: int) -> None:
        slices = self._loop.run(slices_of(self._metadata, plan, self._policy.task_bytes))
        rows: list[dict[str, Any]] = []
        for task in tasks_of(slices, self._policy.task_bytes):
            given = pa.RecordBatch.from_pylist([{"slice": piece.to_json()} for piece in task])
            attempts = 2 if self._happens() else 1
            rows += [self._attempt(given) for _ in range(attempts)][-1 if self._happens() else 0]
        self._driver.commit_batch(_Results(rows), plan)  # type: ignore[arg-type]
        if self._happens():
            self._driver.commit_batch(_Results(rows), plan)  # type: ignore[arg-type]

    def _attempt(self, given: pa.RecordBatch) -> list[dict[str, Any]]:
        """One run of a task."""
        return [row for result in self._task(iter([given])) for row in result.to_pylist()]

    def _happens(self) -> bool:
        return self._random is not None and self._random.random() < _ODDS

    def _reached(self, step: Step) -> None:
        self._observe(step)
        if step is self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if step is self._stop_at:
            self._stop_at = None  # once: who goes on afterwards reaches the step again
            self._let_transactions_end()
            # To this thread: of the whole process another one might get it, and this one would go
            # on for a moment.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def _let_transactions_end(self) -> None:
        """Else the whole process might sleep with SQLite's lock, and nobody could go on.

        Called on the loop that starts all transactions: while this waits, it starts none.
        """
        database = self._metadata.database
        assert isinstance(database, SqliteDatabase)
        for each in (database._writer, database._checkpointer):
            assert each is not None
            each._thread.submit(time.time).result(_DRAIN_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--conf", type=Path)
    parser.add_argument("--die-at", type=lambda name: Step[name])
    parser.add_argument("--stop-at", type=lambda name: Step[name])
    parser.add_argument("--for-ever", type=int, metavar="SEED")
    parser.add_argument("--watched-at", type=lambda name: Step[name])
    given = parser.parse_args()
    place = Place(data=given.data, conf=given.conf)
    if given.watched_at is not None:
        compaction = _watched(place, given.watched_at)
    elif given.for_ever is not None:
        life = Life()
        configure(level="info", form="text", context={"job": "sparkless"})
        compaction = SparklessCompaction(place, random=Random(given.for_ever))
        compaction.run_while(life)
    else:
        compaction = SparklessCompaction(place, die_at=given.die_at, stop_at=given.stop_at)
        compaction.run_until_drained(_DRAIN_S)
    compaction.close()


def _watched(place: Place, at: Step) -> SparklessCompaction:
    stop = Event()

    def hold(step: Step) -> None:
        if step is at and not stop.is_set():
            print(step.name, flush=True)
            stop.wait(_DRAIN_S)
            time.sleep(0.5)  # Whoever watches notices the signal while the batch is under way.

    with stopped_by_signals(stop):
        compaction = SparklessCompaction(place, drain=False, reached=hold)
        compaction.run_watched(stop)
    return compaction


if __name__ == "__main__":
    main()
