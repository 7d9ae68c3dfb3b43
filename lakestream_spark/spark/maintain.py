"""Maintenance of the stream tables, with Spark as the one who rewrites files.

What always holds: stopping happens between topics; a round that fails as a whole (the metadata
store does not answer) is logged and the next one is tried.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Final
from uuid import uuid4

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Transient
from lakestream_spark.core.logs import event
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.merge import SparkRewriter
from lakestream_spark.spark.session import Session
from lakestream_spark.table.drop import settle_deleted
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.table.upkeep.maintain import Maintainer, TopicReport
from lakestream_spark.table.upkeep.policy import UpkeepPolicy
from lakestream_spark.table.upkeep.topic import Tools

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainJob:
    """Everything maintenance needs to know."""

    metadata_url: str
    catalog: CatalogSpec
    topics: str = "*"
    every_s: float = 60.0
    policy: UpkeepPolicy = field(default_factory=UpkeepPolicy)


def run_maintenance(session: Session, job: MaintainJob, stop: Event) -> int:
    """Round after round until `stop` is set; how many there were."""
    rounds = 0
    with _rounds(session, job, stop) as run_round:
        while not stop.is_set():
            try:
                run_round()
                rounds += 1
            except Transient as error:
                event(_log, logging.WARNING, "a round of upkeep failed", error=error)
            stop.wait(job.every_s)
    return rounds


def maintain_once(
    session: Session, job: MaintainJob, stop: Event | None = None
) -> Mapping[str, TopicReport]:
    """One round with everything in it; what it did, by topic."""
    with _rounds(session, job, stop or Event()) as run_round:
        return run_round()


@contextmanager
def _rounds(
    session: Session, job: MaintainJob, stop: Event
) -> Iterator[Callable[[], Mapping[str, TopicReport]]]:
    """Everything opened for rounds, and closed behind them."""
    clock = SystemClock()
    with BackgroundLoop() as loop:
        metadata = loop.run(open_metadata(job.metadata_url, clock=clock))
        catalog = StreamCatalog.open(job.catalog)
        tools = Tools(
            catalog=catalog,
            rewriter=SparkRewriter(session, job.catalog.name),
            intents=metadata.tables,
            cells=metadata.cells,
            log_starts=metadata.retention,
            clock=clock,
            policy=job.policy,
        )
        maintainer = Maintainer(
            tools,
            metadata.topics,
            metadata.leases,
            metadata.problems,
            holder=f"maintain-{uuid4()}",
        )
        try:
            yield lambda: loop.run(_round(maintainer, metadata, catalog, job.topics, stop))
        finally:
            catalog.close()
            loop.run(metadata.close())


async def _round(
    maintainer: Maintainer, metadata: Metadata, catalog: StreamCatalog, topics: str, stop: Event
) -> Mapping[str, TopicReport]:
    """The tables of deleted topics first, then those of living ones."""
    await settle_deleted(metadata.topics, catalog)
    return await maintainer.round(topics, stop.is_set)
