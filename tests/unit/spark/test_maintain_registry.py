"""Maintenance in the registry of jobs: from its start to its end, with its last success."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from lakestream_spark.cli.jobs import maintain_job
from lakestream_spark.core import metrics
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.spark.maintain import KIND, run_maintenance
from tests.support.embedded import lake_settings
from tests.support.ingress_process import eventually


def no_session() -> SparkSession:
    raise AssertionError("there is nothing to merge")


async def with_a_topic(url: str) -> None:
    metadata = await open_metadata(url, clock=SystemClock())
    await metadata.topics.create("orders")
    await metadata.close()


def jobs(url: str) -> list[Job]:
    async def listed() -> list[Job]:
        metadata = await open_metadata(url, clock=SystemClock())
        try:
            return await metadata.jobs.list()
        finally:
            await metadata.close()

    return asyncio.run(listed())


def test_a_round_that_fails_in_a_way_nobody_foresaw_is_followed_by_the_next(tmp_path: Path) -> None:
    settings, stop = lake_settings(tmp_path), Event()
    asyncio.run(with_a_topic(settings.metadata.url))
    (database,) = tmp_path.glob("*.db")
    failures = metrics.LOOP_FAILURES.of(KIND)
    before = failures.value
    with ThreadPoolExecutor(1) as pool, closing(sqlite3.connect(database, timeout=30)) as store:
        store.execute("UPDATE topics SET config = 'no JSON'")
        store.commit()
        running = pool.submit(
            run_maintenance, no_session, maintain_job(settings, every_s=0.05), stop
        )
        try:
            eventually(lambda: failures.value >= before + 2 or running.done())
            store.execute("UPDATE topics SET config = '{}'")
            store.commit()
            eventually(
                lambda: (
                    running.done()
                    or any(job.last_success_ms for job in jobs(settings.metadata.url))
                )
            )
        finally:
            stop.set()
        assert running.result(120) > 0


def test_it_is_there_while_it_runs_and_tells_when_it_last_succeeded(tmp_path: Path) -> None:
    settings, stop = lake_settings(tmp_path), Event()
    before_ms = SystemClock().wall_ms()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            run_maintenance, no_session, maintain_job(settings, every_s=0.05), stop
        )
        try:
            eventually(lambda: any(job.last_success_ms for job in jobs(settings.metadata.url)))
            (job,) = jobs(settings.metadata.url)
            assert (job.kind, job.about) == (KIND, {"topics": "*", "every_s": 0.05})
            assert job.last_success_ms is not None
            assert job.last_success_ms >= before_ms
        finally:
            stop.set()
        assert running.result(120) > 0
    assert jobs(settings.metadata.url) == []
