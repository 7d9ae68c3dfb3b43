"""What brokers do beside serving: reclaim, retention, forgetting producers, fencing writers.

What always holds: what is not needed twice is done by one broker at a time, the holder of a lease;
a lease that was lost costs a second run and nothing else, because every step is safe beside itself.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import BrokerId
from lakestream_spark.core.logs import event
from lakestream_spark.ingress.cluster import ClusterView, Liveness, Registry, Sightings
from lakestream_spark.ingress.upkeep import Loop
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.writers import ObservedWriter
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.ports import SegmentLedger
from lakestream_spark.wal.reclaim import Reclaimer, ReclaimPolicy
from lakestream_spark.wal.segment import WriterIdentity

Work = Callable[[], Awaitable[bool]]

_BATCH: Final = 1000
_log: Final = logging.getLogger(__name__)


class LeaseBook(Protocol):
    """The leases of the metadata store."""

    async def try_acquire(self, name: str, holder: str, session_s: float) -> Lease | None: ...

    async def renew(self, lease: Lease) -> None: ...

    async def release(self, lease: Lease) -> None: ...


class WriterBook(Protocol):
    """The registrations of WAL writers."""

    async def register(self, broker_id: BrokerId, profile: str) -> WriterIdentity: ...

    async def observe(self) -> list[ObservedWriter]: ...

    async def fence(self, identity: WriterIdentity) -> None: ...


class OneAtATime:
    """Work that one broker does while the others stand by."""

    def __init__(
        self, name: str, work: Work, *, holder: str, leases: LeaseBook, session_s: float
    ) -> None:
        self._name = name
        self._work = work
        self._holder = holder
        self._leases = leases
        self._session_s = session_s
        self._lease: Lease | None = None

    async def run(self) -> bool:
        """Do the work if it is ours to do; whether there is more to do at once."""
        held = self._lease
        self._lease = await self._leases.try_acquire(self._name, self._holder, self._session_s)
        if self._lease is None:
            return False
        if self._lease == held:
            await self._leases.renew(self._lease)
        return await self._work()

    async def release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._leases.release(lease)


class ReclaimJob:
    """Reclaims one profile's store under a registration of its own, made when first needed."""

    def __init__(
        self,
        broker_id: BrokerId,
        policy: ReclaimPolicy,
        *,
        profile: str,
        store: ObjectStore,
        ledger: SegmentLedger,
        writers: WriterBook,
    ) -> None:
        self._broker_id = broker_id
        self._policy = policy
        self._profile = profile
        self._store = store
        self._ledger = ledger
        self._writers = writers
        self._current: tuple[WriterIdentity, Reclaimer] | None = None

    async def run(self, clock: Clock) -> bool:
        if self._current is None:
            self._current = await self._register(clock)
        try:
            report = await self._current[1].run_once()
        except Fenced:
            self._current = None
            raise
        if report.deleted or report.orphans or report.evacuated:
            event(
                _log,
                logging.INFO,
                "reclaimed WAL segments",
                profile=self._profile,
                deleted=report.deleted,
                orphans=report.orphans,
                evacuated=report.evacuated,
            )
        return not report.finished

    async def end(self) -> None:
        """Fence the registration: what it left behind may be collected at once."""
        if self._current is not None:
            await self._writers.fence(self._current[0])

    async def _register(self, clock: Clock) -> tuple[WriterIdentity, Reclaimer]:
        identity = await self._writers.register(self._broker_id, f"reclaim-{self._profile}")
        return identity, Reclaimer(
            identity,
            self._policy,
            profile=self._profile,
            store=self._store,
            ledger=self._ledger,
            clock=clock,
        )


class AbandonedWriters:
    """Fences writers that nobody beats for: of a broker that left and died before it was done."""

    def __init__(
        self, registry: Registry, writers: WriterBook, clock: Clock, liveness: Liveness
    ) -> None:
        self._registry = registry
        self._writers = writers
        self._clock = clock
        self._liveness = liveness
        self._sightings: Sightings[WriterIdentity] = Sightings()

    async def run(self) -> bool:
        # Writers first: whoever joined after they were read is in the registry's answer.
        observed = await self._writers.observe()
        brokers = {row.registration.node.node_id for row in await self._registry.list()}
        alone = {each.identity: each.beat for each in observed if each.identity[0] not in brokers}
        now = self._clock.monotonic()
        self._sightings.look(alone, now)
        for identity in alone:
            if self._sightings.still_s(identity, now) >= self._liveness.forget_s:
                await self._writers.fence(identity)
                event(_log, logging.WARNING, "fenced an abandoned WAL writer", writer=identity)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingPolicy:
    """How often what is done, and what is old enough to go."""

    reclaim: ReclaimPolicy
    reclaim_every_s: float = 60.0
    retention_every_s: float = 300.0
    expire_every_s: float = 600.0
    producer_expiration_ms: int = 24 * 3600 * 1000


class Housekeeping:
    """The loops of one broker that belong to all of them together."""

    def __init__(
        self,
        metadata: Metadata,
        stores: Mapping[str, ObjectStore],
        cluster: ClusterView,
        clock: Clock,
        policy: HousekeepingPolicy,
    ) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._clock = clock
        self._policy = policy
        self._jobs: list[OneAtATime] = []
        self._reclaim = {
            profile: ReclaimJob(
                BrokerId(cluster.me.node_id),
                policy.reclaim,
                profile=profile,
                store=store,
                ledger=metadata.ledger,
                writers=metadata.writers,
            )
            for profile, store in stores.items()
        }

    def loops(self, liveness: Liveness) -> list[Loop]:
        """All of them; each but the last is done by one broker at a time."""
        policy, metadata = self._policy, self._metadata
        abandoned = AbandonedWriters(metadata.brokers, metadata.writers, self._clock, liveness)
        return [
            *(
                self._leased(
                    f"reclaim/{profile}", policy.reclaim_every_s, partial(job.run, self._clock)
                )
                for profile, job in self._reclaim.items()
            ),
            self._leased("retention", policy.retention_every_s, self._apply_retention),
            self._leased("producers", policy.expire_every_s, self._expire_producers),
            _loop("writers", liveness.session_s, abandoned.run),
        ]

    async def release(self) -> None:
        """Let another broker go on with what this one did."""
        for reclaim in self._reclaim.values():
            await reclaim.end()
        for job in self._jobs:
            await job.release()

    def _leased(self, name: str, every_s: float, work: Work) -> Loop:
        job = OneAtATime(
            name,
            work,
            holder=self._cluster.holder,
            leases=self._metadata.leases,
            session_s=max(30.0, 3 * every_s),
        )
        self._jobs.append(job)
        return _loop(name, every_s, job.run)

    async def _apply_retention(self) -> bool:
        """The settings of the next partitions; the next run goes on with those that follow."""
        moved = await self._metadata.retention.run(limit=_BATCH)
        if moved:
            event(_log, logging.INFO, "moved log starts", partitions=moved)
        return False

    async def _expire_producers(self) -> bool:
        """Forget what deleted topics left and producers that were silent for long; whether there
        are more of these."""
        await self._metadata.topics.forget_remains()
        before_ms = self._clock.wall_ms() - self._policy.producer_expiration_ms
        return await self._metadata.producers.expire(before_ms=before_ms, limit=_BATCH) == _BATCH


def _loop(name: str, every_s: float, work: Work) -> Loop:
    return Loop(name=name, every_s=every_s, work=work, stale_after_s=3 * every_s + 60)
