"""Compaction: a streaming query that moves WAL slices into tables, one plan per micro-batch.

plan ─► slices ─► tasks write Parquet ─► driver: lease ─► intent ─► append ─► table ends move
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.driver import CompactDriver
from lakestream_spark.spark.source import METADATA_OPTION, SOURCE
from lakestream_spark.spark.task import RESULT_SCHEMA, CompactTask
from lakestream_spark.table.iceberg import CatalogSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactJob:
    """Everything a compaction needs to know; the same value in every process."""

    metadata_url: str
    stores: Mapping[str, StoreSpec]
    catalog: CatalogSpec
    checkpoint: Path


def drain(spark: SparkSession, job: CompactJob) -> int:
    """Move everything acknowledged so far into the tables; how many micro-batches it took."""
    with BackgroundLoop() as loop:
        driver = CompactDriver.open(job.metadata_url, job.catalog, loop)
        try:
            return _drain(spark, job, driver)
        finally:
            driver.close()


def _drain(spark: SparkSession, job: CompactJob, driver: CompactDriver) -> int:
    batches = 0
    # One run of available-now is one batch of a Python source, so run until nothing is left.
    left = driver.pending()
    while left:
        before = left
        run_batch(spark, job, driver)
        batches += 1
        left = driver.pending()
        if left == before:
            raise Unavailable("compaction made no progress", topics=list(map(str, left)))
    return batches


def run_batch(spark: SparkSession, job: CompactJob, driver: CompactDriver) -> None:
    """One micro-batch, to its end."""
    slices = spark.readStream.format(SOURCE).option(METADATA_OPTION, job.metadata_url).load()
    task = CompactTask(stores=job.stores, catalog=job.catalog)
    files = slices.mapInArrow(task, RESULT_SCHEMA)  # type: ignore[arg-type]
    query = (
        files.writeStream.foreachBatch(driver.commit_batch)
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
