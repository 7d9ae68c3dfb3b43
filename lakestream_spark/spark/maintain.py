"""Maintenance of the stream tables, with Spark as the one who rewrites files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from uuid import uuid4

from pyspark.sql import SparkSession

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.merge import SparkRewriter
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.table.upkeep.maintain import Maintainer, TopicReport
from lakestream_spark.table.upkeep.policy import UpkeepPolicy
from lakestream_spark.table.upkeep.topic import Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainJob:
    """Everything maintenance needs to know."""

    metadata_url: str
    catalog: CatalogSpec
    topics: str = "*"
    every_s: float = 60.0
    policy: UpkeepPolicy = field(default_factory=UpkeepPolicy)


def run_maintenance(spark: SparkSession, job: MaintainJob, stop: Event) -> int:
    """Round after round until `stop` is set, which is looked at between rounds; their number."""
    rounds = 0
    with BackgroundLoop() as loop:
        metadata = loop.run(open_metadata(job.metadata_url, clock=SystemClock()))
        catalog = StreamCatalog.open(job.catalog)
        try:
            maintainer = _maintainer(spark, job, metadata, catalog)
            while not stop.is_set():
                loop.run(maintainer.round(job.topics))
                rounds += 1
                stop.wait(job.every_s)
        finally:
            catalog.close()
            loop.run(metadata.close())
    return rounds


def maintain_once(spark: SparkSession, job: MaintainJob) -> Mapping[str, TopicReport]:
    """One round with everything in it; what it did, by topic."""
    with BackgroundLoop() as loop:
        metadata = loop.run(open_metadata(job.metadata_url, clock=SystemClock()))
        catalog = StreamCatalog.open(job.catalog)
        try:
            return loop.run(_maintainer(spark, job, metadata, catalog).round(job.topics))
        finally:
            catalog.close()
            loop.run(metadata.close())


def _maintainer(
    spark: SparkSession, job: MaintainJob, metadata: Metadata, catalog: StreamCatalog
) -> Maintainer:
    tools = Tools(
        catalog=catalog,
        rewriter=SparkRewriter(spark, job.catalog.name),
        intents=metadata.tables,
        log_starts=metadata.retention,
        clock=SystemClock(),
        policy=job.policy,
    )
    return Maintainer(
        tools,
        metadata.topics,
        metadata.leases,
        metadata.problems,
        holder=f"maintain-{uuid4()}",
    )
