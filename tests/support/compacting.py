"""A compaction in a thread of the test, with what its query tells of its progress."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec, wal_stores
from lakestream_spark.spark.compact import CompactJob, run
from lakestream_spark.spark.due import CompactPolicy


def compact_job(settings: Settings, checkpoint: Path) -> CompactJob:
    """One extent for each task, and little patience."""
    return CompactJob(
        metadata_url=settings.metadata.url,
        stores=wal_stores(settings),
        catalog=catalog_spec(settings),
        checkpoint=checkpoint,
        policy=CompactPolicy(task_bytes=1, poll_s=0.05),
    )


class Progress(StreamingQueryListener):
    """The sums of what `observe` counted."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.starts = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self.starts += 1

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        observed = event.progress.observedMetrics.get("compaction")
        if observed is not None:
            self.sums.update({name: count or 0 for name, count in observed.asDict().items()})

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


@contextmanager
def compacting(spark: SparkSession, job: CompactJob) -> Iterator[Progress]:
    """It is told to stop when the block ends, and its errors are raised there."""
    progress, stop = Progress(), Event()
    spark.streams.addListener(progress)
    try:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run, lambda: spark, job, stop)
            try:
                yield progress
            finally:
                stop.set()
                running.result()
    finally:
        spark.streams.removeListener(progress)
