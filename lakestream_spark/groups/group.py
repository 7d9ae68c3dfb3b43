"""One group as its coordinator remembers it: plain data, and the questions that it answers itself.

Deadlines are values in here, in seconds of the coordinator's monotonic clock; whoever holds the
group asks `next_deadline` and comes back then. Nothing here waits, stores or answers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from kio.schema.errors import ErrorCode

from lakestream_spark.groups.messages import (
    Caller,
    GroupDescription,
    JoinedMember,
    MemberDescription,
    Protocol,
    Ticket,
)


class State(Enum):
    """Where a group is in its life, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, kw_only=True)
class Member:
    """A member. While a request of it is parked it owes no heartbeat, unless it is new."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    expires: float = inf
    assignment: bytes = b""
    joining: Ticket | None = None
    syncing: Ticket | None = None
    is_new: bool = True
    owes_sync: bool = False

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((p.metadata for p in self.protocols if p.name == protocol_name), b"")

    def alive(self, now: float) -> None:
        """A sign of life: the session begins anew."""
        self.expires = now + self.session_timeout_ms / 1000

    @property
    def deadline(self) -> float:
        """When it counts as gone."""
        waits = self.joining is not None or self.syncing is not None
        return inf if waits and not self.is_new else self.expires


@dataclass(slots=True, kw_only=True)
class Group:
    """A group. `pending` holds ids that were handed out and not used yet, with their deadlines."""

    id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    join_deadline: float = inf
    sync_deadline: float = inf
    initial_left_ms: int | None = None
    """Not None during the first rebalance: how much longer it may be put off for newcomers."""
    newcomers: bool = False

    def member_of(self, instance_id: str | None) -> Member | None:
        """The static member of that instance id."""
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def check(self, caller: Caller) -> ErrorCode:
        """Whether the caller is who it says it is."""
        if caller.instance_id is not None:
            known = self.member_of(caller.instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known.id != caller.member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if caller.member_id in self.members else ErrorCode.unknown_member_id

    def check_generation(self, caller: Caller) -> ErrorCode:
        """`check`, and that it speaks of this generation."""
        refused = self.check(caller)
        if refused is not ErrorCode.none or caller.generation == self.generation:
            return refused
        return ErrorCode.illegal_generation

    @property
    def rebalance_timeout_s(self) -> float:
        """The longest that any member asks for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0) / 1000

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(m.joining is not None for m in self.members.values())

    @property
    def next_deadline(self) -> float:
        """When the group must be looked at again; infinity when nothing is due by itself."""
        members = (member.deadline for member in self.members.values())
        own = (self.join_deadline, self.sync_deadline)
        return min((*own, *members, *self.pending.values()))

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether a member with these protocols can be in this group."""
        names = {protocol.name for protocol in protocols}
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and bool(names & common(self.members, names))

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """All members as the leader sees them."""
        return tuple(
            JoinedMember(member.id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def describe(self) -> GroupDescription:
        stable = self.state is State.STABLE
        name = self.protocol_name if stable else None
        members = tuple(
            MemberDescription(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(name),
                member.assignment if stable else b"",
            )
            for member in self.members.values()
        )
        kind = self.protocol_type or ""
        return GroupDescription(self.id, self.state.value, kind, name or "", members)


def common(members: dict[str, Member], names: set[str]) -> set[str]:
    """Those of `names` that every member supports."""
    for member in members.values():
        names = names & {protocol.name for protocol in member.protocols}
    return names


def select_protocol(members: dict[str, Member]) -> str:
    """The protocol with the most votes; each member votes for the first that all support."""
    known = {protocol.name for member in members.values() for protocol in member.protocols}
    candidates = common(members, known)
    votes: dict[str, int] = {}
    for member in members.values():
        vote = next(p.name for p in member.protocols if p.name in candidates)
        votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=votes.__getitem__)
