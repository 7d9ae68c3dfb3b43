"""Looks at the backlog and makes plans: which topics are due, and whose tables are ours to move.

What always holds: a topic is planned only under its lease and after what an earlier holder left is
settled; a red topic, a stopped partition and one that failed a moment ago wait, the others do not;
a drain plans nothing beyond its goal, and asks whoever holds a topic of it to hurry.
"""

from collections.abc import Mapping, Sequence

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Fenced, LakestreamError
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.goal import Goal
from lakestream_spark.spark.holdings import Holdings, owner_of
from lakestream_spark.spark.lags import Lags
from lakestream_spark.spark.plan import Ranges, bounded
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.settling import Settler
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.spark.turns import Sizes, Turns
from lakestream_spark.spark.wal_sizes import WalSizes
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
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._holdings = holdings
        self._troubles = troubles
        self._scope = scope
        self._policy = policy
        self._goal = Goal()
        self._asked: set[TopicId] = set()
        self.settler = Settler(metadata, committer, holdings, troubles, scope, policy.session_s)
        self.jobs: Sequence[str] = (scope.job,)
        """The jobs that live and share the topics."""
        self.turns = Turns(troubles, policy)
        self.lags = Lags()
        self.sizes = WalSizes(metadata, clock)
        self.waiting: frozenset[str] = frozenset()
        """Topics with a backlog that could not be planned at the last look."""
        self.reached: Mapping[TopicPartition, int] = {}
        """The table ends of what was due at the last look, whoever moves them."""
        self.is_settling = False
        """Whether the next look may find more: a table was settled, or some are yet to be."""
        self.is_stopping = False
        """No plan is made any more."""

    async def plan(self, now_ms: int) -> int | None:
        """The number of a new plan, or None when nothing is due."""
        await self.settler.settle(self.jobs, now_ms)
        self.is_settling = self.settler.is_at_work
        due = await self._due(now_ms)
        self.reached = {
            TopicPartition(topic.id, planned.partition): planned.first
            for topic, backlog in due
            for planned in backlog.ranges
        }
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
        cut = await self._bounded(ranges) if ranges else {}
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
        sizes = await self._sizes(topics, backlogs)
        due = [
            (topic, part)
            for topic in topics
            if (own := within.get(topic.id)) is not None
            and (part := self._turn(topic, own, sizes, now_ms)) is not None
        ]
        return sorted(due, key=lambda each: each[1].oldest_ms)

    def _turn(
        self, topic: Topic, backlog: TopicBacklog, sizes: Sizes, now_ms: int
    ) -> TopicBacklog | None:
        # Of a drain everything is due, also what rests: it is not done before that is moved.
        return backlog if self._scope.drain else self.turns.of(topic, backlog, sizes, now_ms)

    async def _sizes(
        self, topics: Sequence[Topic], backlogs: Mapping[TopicId, TopicBacklog]
    ) -> Sizes:
        # All bytes first, which costs little: most of the time there are too few for one file.
        wal_bytes = await self.sizes.total()
        self.lags.left(wal_bytes)
        too_few = wal_bytes < min(self._policy.file_bytes, self._policy.batch_bytes)
        if too_few or self._scope.drain:
            return {}
        awake = [topic.id for topic in topics if not self._troubles.is_resting(topic.id)]
        return await self.sizes.of({topic_id: backlogs[topic_id] for topic_id in awake})

    async def _bounded(self, ranges: Ranges) -> Ranges:
        """What of the ranges one batch takes; estimates would cut a piece off their ends."""
        return await bounded(
            self._metadata, ranges, self._policy.batch_bytes, known=self.sizes.exact
        )

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
        if self._troubles.is_resting(topic.id):
            return []
        is_ours = owner_of(topic.id, self.jobs) == self._scope.job
        lease = await self._holdings.take(topic.id) if is_ours else None
        if lease is None:
            await self._ask_holder(topic.id)
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

    async def _ask_holder(self, topic_id: TopicId) -> None:
        """Once, and for a drain: it has no time for the lag target of who moves the topic."""
        if self._scope.drain and topic_id not in self._asked:
            await self._metadata.backlog.ask_flush(topic_id)
            self._asked.add(topic_id)
