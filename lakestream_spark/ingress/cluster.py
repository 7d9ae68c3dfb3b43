"""The brokers as this one sees them: who lives, and who leads which partition.

    tick: beat ─► read the registry ─► who moved since the last look? ─► members, leaders

What always holds
- a broker lives while its beat is seen to change, judged on our own monotonic clock; whoever is
  seen for the first time has the benefit of one session, and a dead one is out of Metadata within
  a session of its last beat;
- every broker that sees the same members names the same leader of a partition, and a change of
  members moves only the partitions of those who came or went;
- a row that stood still for three sessions is removed, and the writers of that broker are fenced.
"""

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Generic, Protocol, TypeVar

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.core.logs import event
from lakestream_spark.metadata.brokers import Node, RegisteredBroker, Registration

K = TypeVar("K", bound=Hashable)

_MAX_CACHED: Final = 200_000
_log: Final = logging.getLogger(__name__)


class Registry(Protocol):
    """Where brokers are entered."""

    async def beat(self, broker: Registration) -> None: ...

    async def leave(self, broker: Registration) -> None: ...

    async def list(self) -> list[RegisteredBroker]: ...

    async def remove(self, seen: RegisteredBroker) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """How often a broker beats, and how long one may stand still."""

    beat_s: float = 1.0
    session_s: float = 6.0

    @property
    def still_s(self) -> float:
        """Seen to stand still this long means dead: seeing lags by a beat, and so does looking."""
        return max(self.session_s - 2 * self.beat_s, self.session_s / 2)

    @property
    def forget_s(self) -> float:
        """Seen to stand still this long means gone for good."""
        return 3 * self.session_s


class Sightings(Generic[K]):
    """Since when each thing has been seen as it is now."""

    def __init__(self) -> None:
        self._seen: dict[K, tuple[object, float]] = {}

    def look(self, states: Mapping[K, object], now: float) -> None:
        """Remember what is there now; what is not there any more is forgotten."""
        before = self._seen
        self._seen = {
            key: before[key] if key in before and before[key][0] == state else (state, now)
            for key, state in states.items()
        }

    def still_s(self, key: K, now: float) -> float:
        """For how long it has not changed, as far as it was seen."""
        return now - self._seen[key][1]


class ClusterView:
    """One broker's view of the others, renewed by `tick`; questions are answered from memory."""

    def __init__(
        self, me: Registration, registry: Registry, clock: Clock, liveness: Liveness
    ) -> None:
        self._me = me
        self._registry = registry
        self._clock = clock
        self._liveness = liveness
        self._sightings: Sightings[str] = Sightings()
        self._left = False
        self._members = Members([me.node])
        self._holders: dict[str, Node] = {me.holder: me.node}

    @property
    def me(self) -> Node:
        return self._me.node

    @property
    def holder(self) -> str:
        """The name under which this broker holds leases; `address_of` finds it by that."""
        return self._me.holder

    def brokers(self) -> tuple[Node, ...]:
        """The live brokers by node id, this one among them until it leaves."""
        return self._members.nodes

    def leader(self, partition: TopicPartition, rack: str | None = None) -> Node:
        """The broker that clients in `rack` should use for the partition; any other serves too."""
        return self._members.leader(partition, rack)

    def address_of(self, holder: str) -> Node | None:
        """The live broker that holds leases under this name."""
        return self._holders.get(holder)

    async def tick(self) -> bool:
        """Beat and look around; raises `Fenced` when this broker is out of the registry."""
        if not self._left:
            await self._registry.beat(self._me)
            await self.look()
        return False

    async def look(self) -> None:
        rows = await self._registry.list()
        now = self._clock.monotonic()
        others = {r.registration.holder: r for r in rows if r.registration.holder != self.holder}
        self._sightings.look({holder: row.beat for holder, row in others.items()}, now)
        still = {holder: self._sightings.still_s(holder, now) for holder in others}
        live = [others[h].registration for h in others if still[h] < self._liveness.still_s]
        self._remember(live if self._left else [self._me, *live])
        for holder in others:
            if still[holder] >= self._liveness.forget_s:
                await self._forget(others[holder])

    async def leave(self) -> None:
        """Leave the registry, so that Metadata names this broker no more; once is enough."""
        if self._left:
            return
        self._left = True
        await self._registry.leave(self._me)
        others = [node for node in self.brokers() if node != self.me]
        # Alone there is nobody to name instead, and clients cannot use an empty list.
        self._members = Members(others or [self.me])

    def _remember(self, live: Sequence[Registration]) -> None:
        self._holders = {each.holder: each.node for each in live}
        nodes = tuple(sorted((each.node for each in live), key=lambda node: node.node_id))
        if nodes and nodes != self._members.nodes:
            event(_log, logging.INFO, "the live brokers are", nodes=[n.node_id for n in nodes])
            self._members = Members(nodes)

    async def _forget(self, row: RegisteredBroker) -> None:
        if await self._registry.remove(row):
            gone = row.registration.node.node_id
            event(_log, logging.WARNING, "removed a dead broker and fenced its writers", node=gone)


class Members:
    """A set of brokers and the leaders that follow from it, by rendezvous hash."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes: Final = tuple(sorted(nodes, key=lambda node: node.node_id))
        self._by_rack: dict[str | None, tuple[Node, ...]] = {None: self.nodes}
        for rack in {node.rack for node in self.nodes if node.rack}:
            self._by_rack[rack] = tuple(node for node in self.nodes if node.rack == rack)
        self._leaders: dict[tuple[TopicPartition, str | None], Node] = {}

    def leader(self, partition: TopicPartition, rack: str | None = None) -> Node:
        # A rack without brokers is no rack: clients name what they like.
        key = (partition, rack if rack in self._by_rack else None)
        found = self._leaders.get(key)
        if found is None:
            if len(self._leaders) >= _MAX_CACHED:
                self._leaders.clear()
            found = max(self._by_rack[key[1]], key=lambda node: _weight(node, partition))
            self._leaders[key] = found
        return found


def _weight(node: Node, partition: TopicPartition) -> bytes:
    """The same in every process; of the node its id only, so that a restart moves nothing."""
    key = b"%d/%d/%b" % (node.node_id, partition.number, partition.topic_id.bytes)
    return blake2b(key, digest_size=8).digest()
