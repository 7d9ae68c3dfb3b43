"""Looks at the backlog and makes plans: which topics are due, and whose tables are ours to move.

What always holds: a topic is planned only under its lease and after what an earlier holder left is
settled; a red topic, a stopped partition and one that failed a moment ago wait, the others do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lakestream_spark.core.errors import Fenced, LakestreamError
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import CompactPolicy, is_due
from lakestream_spark.spark.holdings import Holdings, owner_of
from lakestream_spark.spark.lags import Lags
from lakestream_spark.spark.plan import bounded
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.table.commit import TableCommitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which topics a job works on, and under which name."""

    job: str
    topics: str = "*"
    drain: bool = False
    """Everything is due at once, lag targets do not count."""

    def covers(self, name: str) -> bool:
        return fnmatchcase(name, self.topics)


class Planner:
    """Makes the plans of one job."""

    def __init__(
        self,
        metadata: Metadata,
        committer: TableCommitter,
        holdings: Holdings,
        troubles: Troubles,
        scope: Scope,
        policy: CompactPolicy,
    ) -> None:
        self._metadata = metadata
        self._committer = committer
        self._holdings = holdings
        self._troubles = troubles
        self._scope = scope
        self._policy = policy
        self.jobs: Sequence[str] = (scope.job,)
        """The jobs that live and share the topics."""
        self.head_start_ms = 1000.0
        """About how long a batch takes."""
        self.lags = Lags()
        self.waiting: frozenset[str] = frozenset()
        """Topics with a backlog that could not be planned at the last look."""
        self.is_settling = False
        """Whether the last look settled a table that can be planned at the next one."""

    async def plan(self, now_ms: int) -> int | None:
        """The number of a new plan, or None when nothing is due."""
        self.is_settling = False
        due = await self._due(now_ms)
        ranges: dict[TopicId, Sequence[PlannedRange]] = {}
        waiting: set[str] = set()
        for topic, backlog in due:
            own = await self._ready(topic, backlog)
            if own:
                ranges[topic.id] = own
            else:
                waiting.add(topic.name)
        self.waiting = frozenset(waiting)
        cut = await bounded(self._metadata, ranges, self._policy.batch_bytes) if ranges else {}
        if not cut:
            return None
        return await self._metadata.tables.create_plan(cut, job=self._scope.job)

    async def _due(self, now_ms: int) -> list[tuple[Topic, TopicBacklog]]:
        """The topics whose turn it is, the oldest first."""
        backlogs = await self._metadata.backlog.pending()
        if not backlogs:
            self.lags.show({}, now_ms)
            return []
        topics = [
            topic
            for topic in await self._metadata.topics.list()
            if topic.id in backlogs and self._scope.covers(topic.name)
        ]
        self.lags.show({topic.name: backlogs[topic.id] for topic in topics}, now_ms)
        enough = await self._with_enough_bytes(topics)
        due = [
            (topic, backlogs[topic.id])
            for topic in topics
            if self._scope.drain
            or is_due(
                backlogs[topic.id],
                lag_ms=TopicConfig.of(topic.config).table_lag_ms,
                now_ms=now_ms,
                head_start_ms=self.head_start_ms,
                enough=topic.id in enough,
            )
        ]
        return sorted(due, key=lambda each: each[1].oldest_ms)

    async def _with_enough_bytes(self, topics: Sequence[Topic]) -> set[TopicId]:
        # All bytes first, which costs little: most of the time there are too few for one file.
        wal_bytes = await self._metadata.backlog.wal_bytes()
        self.lags.left(wal_bytes)
        if wal_bytes < self._policy.file_bytes:
            return set()
        sizes: dict[TopicId, int] = {}
        found = await self._metadata.topics.wal_bytes([topic.id for topic in topics])
        for place, size in found.items():
            sizes[place.topic_id] = sizes.get(place.topic_id, 0) + size
        return {topic_id for topic_id, size in sizes.items() if size >= self._policy.file_bytes}

    async def _ready(self, topic: Topic, backlog: TopicBacklog) -> list[PlannedRange]:
        """What of a due topic can be planned now."""
        if self._troubles.is_resting(topic.id) or owner_of(topic.id, self.jobs) != self._scope.job:
            return []
        lease = await self._holdings.take(topic.id)
        if lease is None:
            return []
        if not self._holdings.is_settled(topic.id):
            try:
                await self._committer.recover(lease, topic)
            except Fenced:
                self._holdings.lost(topic.id)
            except LakestreamError as error:
                await self._troubles.table_failed(lease, topic, error)
            else:
                await self._troubles.table_is_well(lease, topic)
                self._holdings.settle(topic.id)
                self.is_settling = True
            return []  # The ends may have moved: the next look sees them.
        return [
            planned
            for planned in backlog.ranges
            if not self._troubles.is_resting(topic.id, planned.partition)
        ]
