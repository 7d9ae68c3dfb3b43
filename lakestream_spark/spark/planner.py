"""Looks at the backlog and makes plans: which topics are due, and whose tables are ours to move.

What always holds: a topic is planned only under its lease and after what an earlier holder left is
settled; a red topic, a stopped partition and one that failed a moment ago wait, the others do not;
a drain plans nothing that was acknowledged after its first look.
"""

from collections.abc import Mapping, Sequence

from lakestream_spark.core.errors import Fenced, LakestreamError
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import CompactPolicy, is_due
from lakestream_spark.spark.goal import Goal
from lakestream_spark.spark.holdings import Holdings, owner_of
from lakestream_spark.spark.lags import Lags
from lakestream_spark.spark.plan import bounded
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.settling import Settler
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.table.commit import TableCommitter


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
        self._holdings = holdings
        self._troubles = troubles
        self._scope = scope
        self._policy = policy
        self._goal = Goal()
        self.settler = Settler(metadata, committer, holdings, troubles, scope, policy.session_s)
        self.jobs: Sequence[str] = (scope.job,)
        """The jobs that live and share the topics."""
        self.head_start_ms = 1000.0
        """About how long a batch takes."""
        self.lags = Lags()
        self.waiting: frozenset[str] = frozenset()
        """Topics with a backlog that could not be planned at the last look."""
        self.is_settling = False
        """Whether the next look may find more: a table was settled, or some are yet to be."""
        self.is_stopping = False
        """No plan is made any more."""

    async def plan(self, now_ms: int) -> int | None:
        """The number of a new plan, or None when nothing is due."""
        await self.settler.settle(self.jobs, now_ms)
        self.is_settling = self.settler.is_at_work
        due = await self._due(now_ms)
        ranges: dict[TopicId, Sequence[PlannedRange]] = {}
        waiting: set[str] = set()
        for topic, backlog in due:
            if self.is_stopping:
                return None
            own = await self._ready_or_resting(topic, backlog)
            if own:
                ranges[topic.id] = own
            else:
                waiting.add(topic.name)
        self.waiting = self.settler.unsettled | waiting
        cut = await bounded(self._metadata, ranges, self._policy.batch_bytes) if ranges else {}
        if not cut:
            # What has no bytes to be planned is left behind too.
            self.waiting |= {topic.name for topic, _ in due if topic.id in ranges}
        if not cut or self.is_stopping:
            return None
        return await self._metadata.tables.create_plan(cut, job=self._scope.job)

    async def _due(self, now_ms: int) -> list[tuple[Topic, TopicBacklog]]:
        """The topics whose turn it is, the oldest first."""
        backlogs: Mapping[TopicId, TopicBacklog] = await self._metadata.backlog.pending()
        within = self._goal.within(backlogs) if self._scope.drain else backlogs
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
            (topic, within[topic.id])
            for topic in topics
            if topic.id in within
            and (
                self._scope.drain
                or is_due(
                    within[topic.id],
                    lag_ms=TopicConfig.of(topic.config).table_lag_ms,
                    now_ms=now_ms,
                    head_start_ms=self.head_start_ms,
                    enough=topic.id in enough,
                )
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

    async def _ready_or_resting(self, topic: Topic, backlog: TopicBacklog) -> list[PlannedRange]:
        try:
            return await self._ready(topic, backlog)
        except Fenced:
            self._holdings.lost(topic.id)
        except LakestreamError:
            raise  # The metadata store does not answer: for no topic.
        except Exception as error:
            self._troubles.topic_failed(topic.id, error)
        return []

    async def _ready(self, topic: Topic, backlog: TopicBacklog) -> list[PlannedRange]:
        """What of a due topic can be planned now."""
        if self._troubles.is_resting(topic.id) or owner_of(topic.id, self.jobs) != self._scope.job:
            return []
        lease = await self._holdings.take(topic.id)
        if lease is None:
            return []
        if not self._holdings.is_settled(topic.id):
            if await self.settler.recover(lease, topic):
                self.is_settling = True
            return []  # The ends may have moved: the next look sees them.
        return [
            planned
            for planned in backlog.ranges
            if not self._troubles.is_resting(topic.id, planned.partition)
        ]
