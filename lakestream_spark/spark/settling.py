"""Finishes or undoes what earlier jobs left of their commits, whether or not anything is due.

What always holds: a topic that becomes this job's is looked at once: one with an intent, or with a
table that Delta has to follow, is settled under its lease; tables of all others stay closed. A few
topics are settled at a time, so that those that are due do not wait for them.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from lakestream_spark.core import metrics
from lakestream_spark.core.errors import Fenced, UnknownTopic
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.holdings import Holdings, owner_of
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.table.commit import DELTA, TableCommitter

_AT_ONCE: Final = 8
_LEASE_SESSIONS: Final = 2
"""Who beats for so many sessions lives, and looks after the table itself."""


class _Left(NamedTuple):
    """A topic that may be unfinished, and since when that is known."""

    name: str
    since_ms: int


class Settler:
    """Settles the tables of one job's topics."""

    def __init__(
        self,
        metadata: Metadata,
        committer: TableCommitter,
        holdings: Holdings,
        troubles: Troubles,
        scope: Scope,
        session_s: float,
    ) -> None:
        self._metadata = metadata
        self._committer = committer
        self._holdings = holdings
        self._troubles = troubles
        self._scope = scope
        self._patience_ms = 1000 * _LEASE_SESSIONS * session_s
        self._left: dict[TopicId, _Left] = {}
        self._jobs: Sequence[str] = ()
        self._owned: frozenset[TopicId] = frozenset()

    @property
    def is_at_work(self) -> bool:
        """Whether a later look settles something that does not rest."""
        return any(not self._troubles.is_resting(topic_id) for topic_id in self._left)

    @property
    def unsettled(self) -> frozenset[str]:
        """The topics that may be unfinished, whether or not they rest: a rest that ends while
        somebody asks must not make them look done."""
        return frozenset(left.name for left in self._left.values())

    def later(self, topic: Topic, now_ms: int) -> None:
        """A commit failed: look what became of it, even if nothing more of the topic comes."""
        self._left.setdefault(topic.id, _Left(topic.name, now_ms))

    async def settle(self, jobs: Sequence[str], now_ms: int) -> None:
        """The next few topics; `jobs` share them all."""
        if list(jobs) != self._jobs:
            await self._find(jobs, now_ms)
        ready = [each for each in self._left if not self._troubles.is_resting(each)]
        await asyncio.gather(*(self._settle(topic_id, now_ms) for topic_id in ready[:_AT_ONCE]))

    async def recover(self, lease: Lease, topic: Topic) -> bool:
        """Whether the table is settled now; if not, it rests."""
        try:
            await self._committer.recover(lease, topic)
            await self._troubles.table_is_settled(lease, topic)
        except Fenced:
            self._holdings.lost(topic.id)
            return False
        except Exception as error:
            metrics.TABLE_FAILURES.of(topic.name).add()
            await self._troubles.table_failed(lease, topic, error)
            return False
        self._holdings.settle(topic.id)
        return True

    async def _find(self, jobs: Sequence[str], now_ms: int) -> None:
        """Topics that have become ours since the last time, and may be unfinished."""
        owned = [
            topic
            for topic in await self._metadata.topics.list()
            if self._scope.covers(topic.name) and self._is_ours(topic.id, jobs)
        ]
        for topic in await self._unfinished([t for t in owned if t.id not in self._owned]):
            self.later(topic, now_ms)
        self._owned, self._jobs = frozenset(topic.id for topic in owned), list(jobs)

    async def _unfinished(self, topics: Sequence[Topic]) -> list[Topic]:
        mirrored = {t.id for t in topics if DELTA in TopicConfig.of(t.config).table_formats}
        begun: set[TopicId] = set()
        if mirrored:
            everything = await self._metadata.overview.partitions()
            begun = {each.partition.topic_id for each in everything if each.ends.table_end > 0}
        return [
            topic
            for topic in topics
            if topic.id in mirrored & begun or await self._metadata.tables.intent(topic.id)
        ]

    async def _settle(self, topic_id: TopicId, now_ms: int) -> None:
        left = self._left.pop(topic_id)
        if self._holdings.is_settled(topic_id) or not self._is_ours(topic_id, self._jobs):
            return
        is_patient = now_ms - left.since_ms < self._patience_ms
        try:
            if not await self._is_done(topic_id, is_patient=is_patient):
                self._left[topic_id] = left  # Behind all others.
        except UnknownTopic:
            return
        except Exception as error:
            self._troubles.topic_failed(topic_id, error)
            self._left[topic_id] = left

    async def _is_done(self, topic_id: TopicId, *, is_patient: bool) -> bool:
        topic = await self._metadata.topics.get_by_id(topic_id)
        was_held = self._holdings.of(topic_id) is not None
        lease = await self._holdings.take(topic_id)
        if lease is None:
            return not is_patient
        is_settled = await self.recover(lease, topic)
        if is_settled and not was_held:
            # An idle table belongs to nobody: renewing its lease would cost, for nothing.
            await self._holdings.give_back([topic_id])
        return is_settled

    def _is_ours(self, topic_id: TopicId, jobs: Sequence[str]) -> bool:
        # A drain does not live to see that another owner is dead: the lease tells it apart.
        return self._scope.drain or owner_of(topic_id, jobs) == self._scope.job
