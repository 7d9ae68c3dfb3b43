"""One round of upkeep over the topics of a pattern.

What always holds: one maintainer works on a topic at a time, by a lease that is renewed while the
work runs; a topic that fails does not stop the others; a red topic is left as it is. What makes a
table red is told here too, because the committer looks only when there are new records; what the
committer told is left to it while it has any to commit.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Fenced, LakestreamError, RedTable, Transient
from lakestream_spark.core.ids import TopicId
from lakestream_spark.core.logs import event
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.upkeep.ports import LeaseStore, ProblemList, TopicList
from lakestream_spark.table.upkeep.topic import Tools, TopicUpkeep, is_mended

_COUNTED: Final = {
    "files merged": metrics.UPKEEP_MERGED_FILES,
    "bytes merged": metrics.UPKEEP_MERGED_BYTES,
    "expired snapshots": metrics.UPKEEP_EXPIRED_SNAPSHOTS,
    "orphans deleted": metrics.UPKEEP_DELETED_ORPHANS,
    "orphan bytes deleted": metrics.UPKEEP_DELETED_ORPHAN_BYTES,
}
"""What of a report the metrics show."""
_SESSION_S: Final = 30.0
_RENEW_S: Final = 5.0
_log: Final = logging.getLogger(__name__)


def maintain_lease(topic_id: TopicId) -> str:
    """The lease of a topic's one maintainer."""
    return f"maintain/{topic_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """What a round did for a topic; `left` says why it did nothing or not all."""

    done: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, LakestreamError] = field(default_factory=dict)
    left: str | None = None
    has_failed: bool = False


class Maintainer:
    """Looks after topics, round by round; it remembers when what is seldom was last done."""

    def __init__(
        self,
        tools: Tools,
        topics: TopicList,
        leases: LeaseStore,
        problems: ProblemList,
        *,
        holder: str,
    ) -> None:
        self._tools = tools
        self._topics = topics
        self._leases = leases
        self._problems = problems
        self._holder = holder
        self._seldom_ms: dict[TopicId, int] = {}

    async def round(
        self, pattern: str = "*", is_over: Callable[[], bool] = lambda: False
    ) -> dict[str, TopicReport]:
        """One topic after the other, since their work shares one Spark; ends early if told to."""
        reports = {}
        topics = [t for t in await self._topics.list() if fnmatchcase(t.name, pattern)]
        for topic in sorted(topics, key=lambda topic: topic.name):
            if is_over():
                break
            reports[topic.name] = report = await self._tend(topic)
            self._count(topic.name, report)
        return reports

    def _count(self, topic: str, report: TopicReport) -> None:
        for what, family in _COUNTED.items():
            family.of(topic).add(report.done.get(what, 0))
        failures = len(report.failed) + report.has_failed
        metrics.UPKEEP_FAILURES.of(topic).add(failures)
        if not failures and report.left is None:
            clock = self._tools.clock
            at_s = clock.monotonic()
            metrics.UPKEEP_AGE.of(topic).read_from(lambda: clock.monotonic() - at_s)

    async def _tend(self, topic: Topic) -> TopicReport:
        try:
            async with self._held(topic) as lease:
                if lease is None:
                    return TopicReport(left="another maintainer is at work")
                if await self._is_red(topic, lease):
                    return TopicReport(left="the topic is red")
                return await self._upkeep_or_told(topic, lease)
        except Fenced:
            return TopicReport(left="another maintainer took over")
        except Exception as error:
            # Whatever it is: the next topic must not wait for somebody who mends this one.
            _log.exception("upkeep of topic %s failed", topic.name)
            return TopicReport(left=f"it failed: {error}", has_failed=True)

    async def _is_red(self, topic: Topic, lease: Lease) -> bool:
        """Whether a problem of the table stands; one that is seen to be mended does not."""
        problems = await self._problems.list(topic.id)
        if not any(problem.partition is None for problem in problems):
            return False
        if not await is_mended(topic, self._tools):
            return True
        event(_log, logging.INFO, "a problem is mended", topic=topic.name)
        await self._problems.clear(lease, topic.id)
        return False

    async def _upkeep_or_told(self, topic: Topic, lease: Lease) -> TopicReport:
        try:
            return await self._upkeep(topic, lease)
        except RedTable as red:
            event(_log, logging.ERROR, "a table is red", topic=topic.name, error=red)
            problem = Problem.of_table(topic.id, red, self._tools.clock.wall_ms())
            await self._problems.report(lease, problem)
            return TopicReport(left=f"the table is red: {red}")

    async def _upkeep(self, topic: Topic, lease: Lease) -> TopicReport:
        now_ms = self._tools.clock.wall_ms()
        last_ms = self._seldom_ms.get(topic.id)
        is_seldom = last_ms is None or now_ms - last_ms >= self._tools.policy.seldom_ms
        upkeep = TopicUpkeep(
            topic, self._tools, lambda: self._leases.renew(lease), is_seldom=is_seldom
        )
        await upkeep.run()
        if is_seldom:
            self._seldom_ms[topic.id] = now_ms
        event(_log, logging.DEBUG, "upkeep of a topic is done", topic=topic.name, **upkeep.done)
        return TopicReport(done=upkeep.done, failed=upkeep.failed)

    @asynccontextmanager
    async def _held(self, topic: Topic) -> AsyncIterator[Lease | None]:
        lease = await self._leases.try_acquire(maintain_lease(topic.id), self._holder, _SESSION_S)
        if lease is None:
            yield None
            return
        renewing = asyncio.create_task(
            _keep(self._leases, lease, self._tools.clock), name=f"renew {lease.name}"
        )
        try:
            yield lease
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with suppress(Transient):
                await self._leases.release(lease)


async def _keep(leases: LeaseStore, lease: Lease, clock: Clock) -> None:
    """Beat while a long step runs; a lost lease is noticed before the next step."""
    while True:
        await clock.sleep(_RENEW_S)
        with suppress(Transient):
            await leases.renew(lease)
