"""The driver's side of a compaction: plans beforehand, commits afterwards, beats all the while.

    look ─► plan ─► (Spark: slices ─► tasks) ─► outcomes ─► per topic: intent ─► append ─► ends move

What always holds: one topic's failed commit, whatever the error, does not fail the others nor the
query, and what it did not move is part of the next plan; leases are renewed while tasks run; a
batch commits only what follows the table ends without a gap.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from threading import Event
from typing import Final

from pyspark.sql import DataFrame

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Fenced, LakestreamError, Unavailable, UnknownTopic
from lakestream_spark.core.ids import TopicId
from lakestream_spark.core.logs import event
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.jobs import COMPACTION, Job
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.holdings import Holdings, owner_of, sharing
from lakestream_spark.spark.outcome import Kind, Movable, Outcome, movable
from lakestream_spark.spark.plan import extents_of
from lakestream_spark.spark.planner import Planner
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.tally import Tally
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.table.append import Verdict
from lakestream_spark.table.commit import TableCommitter

_COMMITS_AT_ONCE: Final = 4
_log: Final = logging.getLogger(__name__)


class CompactDriver:
    """One life of a compaction job."""

    def __init__(
        self,
        metadata: Metadata,
        committer: TableCommitter,
        scope: Scope,
        policy: CompactPolicy,
        clock: Clock,
        loop: BackgroundLoop,
    ) -> None:
        self._metadata = metadata
        self._committer = committer
        self._scope = scope
        self._policy = policy
        self._clock = clock
        self._loop = loop
        self._holdings = Holdings(metadata.leases, scope.job, policy.session_s)
        self._troubles = Troubles(metadata.problems, clock)
        self._planner = Planner(
            metadata, committer, self._holdings, self._troubles, scope, policy, clock
        )
        self.tally = Tally(clock)
        self._planned_at: float | None = None
        self._begun = False
        self._looking = False
        self._drained = Event()
        self._tasks: list[Future[None]] = []

    def join(self) -> None:
        """Enter the registry, and beat from now on."""
        self._loop.run(self._beat())
        # Above every plan of an earlier life, so that an old checkpoint never looks newer.
        self._loop.run(self._metadata.tables.create_plan({}, job=self._scope.job))
        self._tasks.append(self._loop.start(self._forever(self._beat, self._policy.session_s / 4)))

    def begin(self) -> None:
        """Look after the backlog from now on."""
        self._begun = True
        self._tasks.append(self._loop.start(self._forever(self._look, self._policy.poll_s)))

    def finish(self, within_s: float, *, is_running: Callable[[], bool]) -> None:
        """Make no more plans, and wait for the one under way while there is who runs it."""
        self._planner.is_stopping = True
        deadline = self._clock.monotonic() + within_s
        while self._is_busy and is_running() and self._clock.monotonic() < deadline:
            Event().wait(0.05)

    @property
    def _is_busy(self) -> bool:
        return self._looking or self.has_plan

    def close(self) -> None:
        """Give the tables back and leave the registry."""
        for task in self._tasks:
            task.cancel()
        try:
            self._loop.run(self._holdings.give_back(self._holdings.topics))
            self._loop.run(self._metadata.jobs.leave(self._scope.job))
        except LakestreamError as error:
            event(_log, logging.WARNING, "the job left without saying so", error=error)

    @property
    def has_plan(self) -> bool:
        """Whether there is something for Spark to do, or it does it."""
        return self._planned_at is not None

    @property
    def is_drained(self) -> bool:
        """Whether a look found nothing that could be planned and nothing is under way."""
        return self._drained.is_set()

    @property
    def left_behind(self) -> frozenset[str]:
        """Topics with a backlog that could not be planned at the last look."""
        return self._planner.waiting

    @property
    def progress(self) -> object:
        """Another value than before when a table end moved, whoever moved it."""
        return self.tally.commits, self._planner.reached

    def commit_batch(self, results: DataFrame, batch_id: int) -> None:  # noqa: ARG002
        """Spark's `foreachBatch`: collecting the few result rows is what runs the tasks."""
        try:
            rows = results.collect()
            self._loop.run(self._commit_all([Outcome.of(row.asDict()) for row in rows]))
        finally:
            if self._planned_at is not None:
                took_ms = 1000 * (self._clock.monotonic() - self._planned_at)
                turns = self._planner.turns
                turns.head_start_ms = (3 * turns.head_start_ms + took_ms) / 4
            self.batch_is_over()

    def batch_is_over(self) -> None:
        """The next plan may be made: also when Spark gave the batch up."""
        self._planned_at = None

    async def _forever(self, work: Callable[[], Awaitable[None]], every_s: float) -> None:
        while True:
            try:
                await work()
            except LakestreamError as error:
                event(_log, logging.ERROR, "compaction waits for its metadata store", error=error)
            except Exception:
                # Whatever it is: a loop that ends would stop every topic, and keep their leases.
                metrics.LOOP_FAILURES.of(COMPACTION).add()
                _log.exception("compaction goes on after an error that nobody foresaw")
            await asyncio.sleep(every_s)

    async def _look(self) -> None:
        if self._planned_at is not None:
            return
        # In this order: whoever sees no look under way sees the plan that the last one made.
        self._looking = True
        try:
            if not self._planner.is_stopping:
                await self._make_plan()
        finally:
            self._looking = False

    async def _make_plan(self) -> None:
        self._drained.clear()
        began = self._clock.monotonic()
        await self._give_back_what_others_own()
        number = await self._planner.plan(self._clock.wall_ms())
        if number is not None:
            self._planned_at = began
        elif not self._planner.is_settling:
            self._drained.set()

    async def _beat(self) -> None:
        """Show that the job lives, and share the topics with those that live too."""
        about = {
            "topics": self._scope.topics,
            "drain": self._scope.drain,
            "begun": self._begun,
            "tables": len(self._holdings.topics),
        }
        job = Job(
            id=self._scope.job,
            kind=COMPACTION,
            started_ms=self.tally.started_ms,
            last_success_ms=self.tally.last_success_ms,
            about=about,
        )
        await self._metadata.jobs.beat(job)
        await self._holdings.renew()
        live = await self._metadata.jobs.live(COMPACTION, self._policy.session_s)
        self._planner.jobs = sharing(live, self._scope)
        await self._metadata.jobs.forget_dead(COMPACTION, 6 * self._policy.session_s)

    async def _give_back_what_others_own(self) -> None:
        """Between two batches, and before each: else a job that always has something to do would
        keep what it plans no more, and nobody could."""
        jobs = self._planner.jobs
        others = [
            topic_id
            for topic_id in self._holdings.topics
            if owner_of(topic_id, jobs) != self._scope.job
        ]
        await self._holdings.give_back(others)

    async def _commit_all(self, outcomes: Sequence[Outcome]) -> None:
        by_topic: dict[TopicId, list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            by_topic[outcome.topic_id].append(outcome)
        at_once = asyncio.Semaphore(_COMMITS_AT_ONCE)

        async def one(topic_id: TopicId, own: Sequence[Outcome]) -> None:
            async with at_once:
                await self._commit(topic_id, own)

        await asyncio.gather(*(one(topic_id, own) for topic_id, own in by_topic.items()))

    async def _commit(self, topic_id: TopicId, outcomes: Sequence[Outcome]) -> None:
        try:
            topic = await self._metadata.topics.get_by_id(topic_id)
            lease = await self._holdings.take(topic_id)
            if lease is None:
                return
            await self._move(lease, topic, outcomes)
        except UnknownTopic:
            return  # Deleted meanwhile: its files are orphans.
        except Fenced:
            self._holdings.lost(topic_id)
        except Exception as error:
            self._troubles.topic_failed(topic_id, error)

    async def _move(self, lease: Lease, topic: Topic, outcomes: Sequence[Outcome]) -> None:
        try:
            ends = await self._metadata.tables.ends(topic.id)
            found = movable(outcomes, {index: each.table_end for index, each in ends.items()})
            if found.ranges:
                await self._commit_found(lease, topic, outcomes[0].plan, found)
            for outcome in found.stopped:
                await self._stopped(lease, topic, outcome)
        except (Fenced, UnknownTopic):
            raise
        except Exception as error:
            await self._failed(lease, topic, error)

    async def _commit_found(self, lease: Lease, topic: Topic, plan: int, found: Movable) -> None:
        began = self._clock.monotonic()
        self._holdings.unsettle(topic.id)
        try:
            verdict = await self._committer.commit(
                lease, topic, plan, found.ranges, found.files, found.quarantined
            )
            if verdict is Verdict.STALE:
                raise Unavailable("the table does not end where the commit begins, nothing moved")
        except (Fenced, UnknownTopic):
            raise
        except Exception as error:
            await self._failed(lease, topic, error)
            return
        self._holdings.settle(topic.id)
        self.tally.committed(topic.name, found, self._clock.monotonic() - began)
        self._planner.lags.committed(topic.name, self._clock.wall_ms())
        await self._troubles.is_well(lease, topic, [each.partition for each in found.ranges])

    async def _failed(self, lease: Lease, topic: Topic, error: Exception) -> None:
        self._holdings.unsettle(topic.id)
        self.tally.failed(topic.name)
        self._planner.settler.later(topic, self._clock.wall_ms())
        await self._troubles.table_failed(lease, topic, error)

    async def _stopped(self, lease: Lease, topic: Topic, outcome: Outcome) -> None:
        lost = await self._is_lost(outcome)
        self.tally.failed(topic.name)
        await self._troubles.partition_failed(
            lease,
            topic,
            outcome.range.partition,
            outcome.range.first,
            outcome.sentence,
            lost=lost,
        )

    async def _is_lost(self, outcome: Outcome) -> bool:
        """Whether bytes are damaged, or are missing where the index says that they are: segments
        that are mostly dead are copied, perhaps since the slice was cut."""
        if outcome.kind is not Kind.GONE:
            return outcome.kind is Kind.CORRUPT
        now = await extents_of(self._metadata, outcome.topic_id, outcome.range)
        return any(str(extent.segment_id) == outcome.missing for extent in now)
