"""What is asked of a group and what it answers, free of Kafka's versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NewType, TypeAlias

from kio.schema.errors import ErrorCode

Ticket = NewType("Ticket", int)
"""Stands for a request that may have to wait; each is answered exactly once."""

NO_MEMBER: Final = ""
NO_GENERATION: Final = -1


class Protocol(NamedTuple):
    """A way to assign partitions that a member knows, with what it says about itself."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request. `new_member_id`, set by the coordinator, is for a member to be made."""

    member_id: str
    new_member_id: str = NO_MEMBER
    instance_id: str | None = None
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    must_know_id: bool = True
    """From v4: a new member is told its id first and joins with it."""
    can_skip_assignment: bool = False
    """From v9: a leader that comes back may be told to leave the assignment as it is."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a JoinGroup; only the leader gets `members`."""

    error: ErrorCode = ErrorCode.none
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class Caller(NamedTuple):
    """Who a member says it is."""

    member_id: str = NO_MEMBER
    instance_id: str | None = None
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request; the leader's holds the assignments."""

    caller: Caller
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a SyncGroup."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Left(NamedTuple):
    """What became of one member that was to leave."""

    caller: Caller
    error: ErrorCode = ErrorCode.none


Answer: TypeAlias = Joined | Synced


class Reply(NamedTuple):
    """The answer to a parked request, or to the one at hand."""

    ticket: Ticket
    answer: Answer


class MemberDescription(NamedTuple):
    """A member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group as DescribeGroups and ListGroups show it."""

    group_id: str
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()
    error: ErrorCode = ErrorCode.none
