"""The tables a job works on: their leases, and whether what others left behind is settled.

What always holds: a table is worked on under its lease only; jobs that live share the topics by
rendezvous hash, so that a job that comes or goes moves few, and a drain owns nothing beside a job
that stays; a lease that was lost is noticed at the next renewal or by the first guarded write,
whichever is earlier.
"""

import logging
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from lakestream_spark.core.ids import TopicId
from lakestream_spark.core.logs import event
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.leases import Lease, Leases
from lakestream_spark.spark.scope import Scope
from lakestream_spark.table.commit import lease_name

_log: Final = logging.getLogger(__name__)


class Holdings:
    """The leases of one life of a job."""

    def __init__(self, leases: Leases, holder: str, session_s: float) -> None:
        self._leases = leases
        self._holder = holder
        self._session_s = session_s
        self._held: dict[TopicId, Lease] = {}
        self._settled: set[TopicId] = set()

    @property
    def topics(self) -> Sequence[TopicId]:
        return list(self._held)

    def of(self, topic_id: TopicId) -> Lease | None:
        return self._held.get(topic_id)

    async def take(self, topic_id: TopicId) -> Lease | None:
        """The table's lease, if it is ours, free, or its holder stood still for the session."""
        lease = await self._leases.try_acquire(lease_name(topic_id), self._holder, self._session_s)
        if lease is None:
            self.lost(topic_id)
            return None
        if self._held.get(topic_id) != lease:
            self._settled.discard(topic_id)
        self._held[topic_id] = lease
        return lease

    def is_settled(self, topic_id: TopicId) -> bool:
        """Whether nothing of an earlier commit is left to be finished or undone."""
        return topic_id in self._settled

    def settle(self, topic_id: TopicId) -> None:
        self._settled.add(topic_id)

    def unsettle(self, topic_id: TopicId) -> None:
        """A commit failed: look what became of it before the next one."""
        self._settled.discard(topic_id)

    def lost(self, topic_id: TopicId) -> None:
        self._held.pop(topic_id, None)
        self._settled.discard(topic_id)

    async def renew(self) -> None:
        """Show that the holder lives; tables that somebody else took are dropped."""
        by_lease = {lease: topic_id for topic_id, lease in self._held.items()}
        for lease in await self._leases.renew_all(list(by_lease)):
            if self._held.get(by_lease[lease]) != lease:
                continue  # Given back meanwhile.
            event(_log, logging.WARNING, "another job took over a table", lease=lease.name)
            self.lost(by_lease[lease])

    async def give_back(self, topic_ids: Sequence[TopicId]) -> None:
        for topic_id in topic_ids:
            lease = self._held.get(topic_id)
            self.lost(topic_id)
            if lease is not None:
                await self._leases.release(lease)


def sharing(live: Sequence[Job], scope: Scope) -> list[str]:
    """The jobs among which this one shares its topics, while all of these live."""
    same = [each for each in live if each.about.get("topics") == scope.topics]
    # Who waits for its Spark moves nothing yet.
    ready = {each.id: each.about for each in same if each.about.get("begun", True)}
    # What comes after its goal a drain does not move: who lives on keeps the topics.
    steady = {job for job, about in ready.items() if not about.get("drain")}
    if scope.drain and steady:
        return sorted(steady)
    # Itself too, whatever the registry says: somebody has to own every topic.
    return sorted({scope.job, *(ready if scope.drain else steady)})


def owner_of(topic_id: TopicId, jobs: Sequence[str]) -> str:
    """The job that works on a topic while all of these live."""
    return max(jobs, key=lambda job: blake2b(f"{job}/{topic_id}".encode(), digest_size=8).digest())
