"""Maintenance of the stream tables, with Spark as the one who rewrites files.

What always holds: stopping happens between topics; a round that fails as a whole, whatever the
error, is logged and the next one is tried; a table that cannot be dropped does not keep the living
ones from their upkeep; the registry of jobs knows of it from before its first round until it ends,
and when a round last succeeded.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Final
from uuid import uuid4

from pyspark.sql import SparkSession

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import Transient
from lakestream_spark.core.logs import event
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.merge import SparkRewriter
from lakestream_spark.spark.remote import WAREHOUSE, refuse_remote_disks
from lakestream_spark.spark.session import Session
from lakestream_spark.table.drop import settle_deleted
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.table.upkeep.maintain import Maintainer, TopicReport
from lakestream_spark.table.upkeep.policy import UpkeepPolicy
from lakestream_spark.table.upkeep.topic import Tools

KIND: Final = "maintain"
_DEAD_AFTER_ROUNDS: Final = 10
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
            except Exception:
                # Whatever it is: who ends here never looks after any table again.
                metrics.LOOP_FAILURES.of(KIND).add()
                _log.exception("a round of upkeep failed, and nobody foresaw it")
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

    def on_shared_files() -> SparkSession:
        spark = session()
        refuse_remote_disks(spark, {WAREHOUSE: job.catalog.warehouse})
        return spark

    with BackgroundLoop() as loop:
        metadata = loop.run(open_metadata(job.metadata_url, clock=clock))
        catalog = StreamCatalog.open(job.catalog)
        tools = Tools(
            catalog=catalog,
            rewriter=SparkRewriter(on_shared_files, job.catalog.name),
            intents=metadata.tables,
            cells=metadata.cells,
            log_starts=metadata.retention,
            clock=clock,
            policy=job.policy,
        )
        entry = _Entry(metadata, clock, job)
        maintainer = Maintainer(
            tools, metadata.topics, metadata.leases, metadata.problems, holder=entry.id
        )

        async def one_round() -> Mapping[str, TopicReport]:
            await entry.begin()
            report = await _round(maintainer, metadata, catalog, job.topics, stop)
            await entry.succeeded()
            return report

        try:
            yield lambda: loop.run(one_round())
        finally:
            loop.run(entry.leave())
            catalog.close()
            loop.run(metadata.close())


class _Entry:
    """This job in the registry, for people: no round depends on it."""

    def __init__(self, metadata: Metadata, clock: Clock, job: MaintainJob) -> None:
        self.id = f"{KIND}-{uuid4()}"
        self._jobs = metadata.jobs
        self._clock = clock
        self._every_s = job.every_s
        self._about = {"topics": job.topics, "every_s": job.every_s}
        self._started_ms = clock.wall_ms()
        self._last_success_ms: int | None = None

    async def begin(self) -> None:
        await self._beat()
        await self._jobs.forget_dead(KIND, _DEAD_AFTER_ROUNDS * self._every_s)

    async def succeeded(self) -> None:
        self._last_success_ms = self._clock.wall_ms()
        await self._beat()

    async def leave(self) -> None:
        with suppress(Transient):
            await self._jobs.leave(self.id)

    async def _beat(self) -> None:
        await self._jobs.beat(
            Job(
                id=self.id,
                kind=KIND,
                started_ms=self._started_ms,
                last_success_ms=self._last_success_ms,
                about=self._about,
            )
        )


async def _round(
    maintainer: Maintainer, metadata: Metadata, catalog: StreamCatalog, topics: str, stop: Event
) -> Mapping[str, TopicReport]:
    """The tables of deleted topics first, then those of living ones."""
    try:
        await settle_deleted(metadata.topics, catalog)
    except Transient:
        raise  # The metadata store does not answer: for no topic.
    except Exception:
        metrics.LOOP_FAILURES.of(KIND).add()
        _log.exception("the tables of deleted topics wait for the next round")
    return await maintainer.round(topics, stop.is_set)
