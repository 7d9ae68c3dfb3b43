"""Compaction: a long-running streaming query that moves WAL slices into tables.

    plan ─► slices ─► tasks write Parquet ─► driver: lease ─► intent ─► append ─► table ends move

What always holds: the job is in the registry before Spark is asked for; everything that was opened
is closed behind it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Final, TypeAlias
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.retry import Backoff
from lakestream_spark.metadata import open_metadata
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.driver import CompactDriver
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.outcome import RESULT_SCHEMA
from lakestream_spark.spark.pools import COMPACT, join_pool
from lakestream_spark.spark.remote import (
    STORE_SETTINGS,
    WAREHOUSE,
    refuse_remote_disks,
    refuse_remote_sqlite,
)
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.source import (
    JOB_OPTION,
    METADATA_OPTION,
    SOURCE,
    TASK_BYTES_OPTION,
    WalSource,
)
from lakestream_spark.spark.tally import Tally
from lakestream_spark.spark.task import CompactTask
from lakestream_spark.spark.watch import watch
from lakestream_spark.table.commit import TableCommitter
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.spec import CatalogSpec

QUERY_NAME: Final = "lakestream-compact"
# Short: what takes longer is left to the next batch, so that other topics do not wait for it.
_COMMIT_BACKOFF: Final = Backoff(total_s=5.0)

Session: TypeAlias = Callable[[], SparkSession]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactJob:
    """Everything a compaction needs to know; the same value in every process."""

    metadata_url: str
    stores: Mapping[str, StoreSpec]
    catalog: CatalogSpec
    checkpoint: Path
    topics: str = "*"
    policy: CompactPolicy = field(default_factory=CompactPolicy)


def run(session: Session, job: CompactJob, stop: Event) -> Tally:
    """Compact until `stop` is set; what was begun is finished first.

    The session is asked for after the job is in the registry: whoever waits for it knows that it
    is on its way.
    """
    return _run(session, job, stop, drain=False)


def drain(session: Session, job: CompactJob, stop: Event | None = None) -> Tally:
    """Move everything acknowledged so far into the tables, then end.

    Raises `Unavailable` when some topic could not be moved.
    """
    return _run(session, job, stop or Event(), drain=True)


def _run(session: Session, job: CompactJob, stop: Event, *, drain: bool) -> Tally:
    clock = SystemClock()
    scope = Scope(job=f"compact-{uuid4()}", topics=job.topics, drain=drain)
    with BackgroundLoop() as loop:
        metadata = loop.run(open_metadata(job.metadata_url, clock=clock))
        catalog = StreamCatalog.open(job.catalog)
        committer = TableCommitter(
            metadata.tables, catalog, clock=clock, random=Random(), backoff=_COMMIT_BACKOFF
        )
        driver = CompactDriver(metadata, committer, scope, job.policy, clock, loop)
        try:
            driver.join()
            spark = session()
            # Spark takes its time to start: who was told to stop meanwhile begins nothing.
            if stop.is_set():
                return driver.tally
            refuse_remote_sqlite(spark, job.metadata_url)
            refuse_remote_disks(spark, _places(job))
            spark.dataSource.register(WalSource)
            driver.begin()
            watch(lambda: _start(spark, job, scope, driver), driver, stop, drain=drain)
        finally:
            driver.close()
            catalog.close()
            loop.run(metadata.close())
    return driver.tally


def _places(job: CompactJob) -> Mapping[str, str]:
    """What tasks read and write, by the setting that names it."""
    stores = {STORE_SETTINGS.get(name, name): spec.url for name, spec in job.stores.items()}
    return {WAREHOUSE: job.catalog.warehouse, **stores}


def _start(
    spark: SparkSession, job: CompactJob, scope: Scope, driver: CompactDriver
) -> StreamingQuery:
    join_pool(spark, COMPACT)
    slices = (
        spark.readStream.format(SOURCE)
        .option(METADATA_OPTION, job.metadata_url)
        .option(JOB_OPTION, scope.job)
        .option(TASK_BYTES_OPTION, str(job.policy.task_bytes))
        .load()
    )
    task = CompactTask(stores=job.stores, catalog=job.catalog)
    results = slices.mapInArrow(task, RESULT_SCHEMA)  # type: ignore[arg-type]
    counted = results.observe(
        "compaction",
        f.sum("rows").alias("records"),
        f.sum("bytes").alias("bytes"),
        f.sum("wal_bytes").alias("wal_bytes"),
        f.sum("files").alias("files"),
    )
    return (
        counted.writeStream.queryName(QUERY_NAME)
        .foreachBatch(driver.commit_batch)
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(processingTime=f"{round(1000 * job.policy.poll_s)} milliseconds")
        .start()
    )
