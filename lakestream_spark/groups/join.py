"""JoinGroup: a member comes, comes back, or comes in place of its former self.

What always holds: the request at hand is answered now or its ticket is parked in the group; a
parked one that is asked again is answered, so that no ticket is forgotten.
"""

from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import Group, Member, State, select_protocol
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import NO_MEMBER, Caller, Join, Joined, Reply, Synced, Ticket
from lakestream_spark.groups.rebalance import (
    answer_join,
    answer_sync,
    complete_if_joined,
    drop,
    joined,
    prepare,
    rebalance_or_complete,
)
from lakestream_spark.groups.subscription import CONSUMER, subscribed_topics


def join(group: Group, limits: GroupLimits, asked: Join, ticket: Ticket, now: float) -> list[Reply]:
    """Replies to this and to parked requests."""
    is_new = asked.member_id == NO_MEMBER
    if group.state is State.DEAD:
        return _refuse(ticket, asked, ErrorCode.coordinator_not_available)
    if not _has_room(group, limits, asked):
        return _turn_away(group, asked, ticket, now)
    if not group.supports(asked.protocol_type, asked.protocols):
        return _refuse(ticket, asked, ErrorCode.inconsistent_group_protocol)
    if is_new and asked.instance_id is None and asked.must_know_id:
        group.pending[asked.new_member_id] = now + asked.session_timeout_ms / 1000
        required = Joined(error=ErrorCode.member_id_required, member_id=asked.new_member_id)
        return [Reply(ticket, required)]
    if is_new:
        former = group.member_of(asked.instance_id)
        if former is not None:
            return _replace(group, limits, former, asked, ticket, now)
        return _add(group, limits, asked.new_member_id, asked, ticket, now)
    if asked.member_id in group.pending and asked.instance_id is None:
        return _add(group, limits, asked.member_id, asked, ticket, now)
    refused = group.check(Caller(asked.member_id, asked.instance_id))
    if refused is not ErrorCode.none:
        return _refuse(ticket, asked, refused)
    return _rejoin(group, limits, group.members[asked.member_id], asked, ticket, now)


def _refuse(ticket: Ticket, asked: Join, error: ErrorCode) -> list[Reply]:
    return [Reply(ticket, Joined(error=error, member_id=asked.member_id))]


def _has_room(group: Group, limits: GroupLimits, asked: Join) -> bool:
    """Known members have a place; while a group gathers, those that wait count, not those known."""
    known = group.members.get(asked.member_id) or (
        group.member_of(asked.instance_id) if asked.member_id == NO_MEMBER else None
    )
    match group.state:
        case State.PREPARING:
            waiting = sum(member.joining is not None for member in group.members.values())
            return waiting < limits.max_size or (known is not None and known.joining is not None)
        case State.COMPLETING | State.STABLE:
            return known is not None or len(group.members) < limits.max_size
        case _:
            return True


def _turn_away(group: Group, asked: Join, ticket: Ticket, now: float) -> list[Reply]:
    full = Joined(error=ErrorCode.group_max_size_reached, member_id=NO_MEMBER)
    replies = [Reply(ticket, full)]
    group.pending.pop(asked.member_id, None)
    member = group.members.get(asked.member_id)
    if member is not None:
        replies += drop(group, member)
    return replies + complete_if_joined(group, now)


def _add(
    group: Group, limits: GroupLimits, member_id: str, asked: Join, ticket: Ticket, now: float
) -> list[Reply]:
    group.pending.pop(member_id, None)
    member = Member(
        id=member_id,
        instance_id=asked.instance_id,
        client_id=asked.client_id,
        client_host=asked.client_host,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        protocols=asked.protocols,
        joining=ticket,
        # It cannot send heartbeats before its first generation, and a lost connection is not seen.
        expires=now + limits.new_member_timeout_ms / 1000,
    )
    if not group.members:
        group.protocol_type, group.leader = asked.protocol_type, member_id
    group.members[member_id] = member
    group.newcomers = True
    return rebalance_or_complete(group, limits, now)


def _rejoin(
    group: Group, limits: GroupLimits, member: Member, asked: Join, ticket: Ticket, now: float
) -> list[Reply]:
    """A known member: a rebalance, unless nothing changed and it only missed an answer."""
    unchanged = member.protocols == asked.protocols
    missed = group.state is State.COMPLETING or (
        group.state is State.STABLE and group.leader != member.id
    )
    if unchanged and missed:
        return [Reply(ticket, joined(group, member))]
    replies = _update(member, asked, ticket)
    return replies + rebalance_or_complete(group, limits, now)


def _update(member: Member, asked: Join, ticket: Ticket) -> list[Reply]:
    again = Joined(error=ErrorCode.rebalance_in_progress, member_id=member.id)
    replies = answer_join(member, again)
    member.protocols = asked.protocols
    member.session_timeout_ms = asked.session_timeout_ms
    member.rebalance_timeout_ms = asked.rebalance_timeout_ms
    member.client_id, member.client_host = asked.client_id, asked.client_host
    member.joining = ticket
    return replies


def _replace(
    group: Group, limits: GroupLimits, former: Member, asked: Join, ticket: Ticket, now: float
) -> list[Reply]:
    """A static member came back under a new id: the old id is fenced, its place is kept."""
    fenced = ErrorCode.fenced_instance_id
    replies = answer_join(former, Joined(error=fenced, member_id=former.id))
    replies += answer_sync(former, Synced(error=fenced))
    same_topics = _topics(group, former.metadata(group.protocol_name))
    led_by = group.leader
    del group.members[former.id]
    if led_by == former.id:
        group.leader = asked.new_member_id
    former.id, former.is_new = asked.new_member_id, False
    group.members[former.id] = former
    former.alive(now)
    replies += _update(former, asked, ticket)
    if group.state is State.COMPLETING:
        # The leader may assign to the old id, so the new one would get nothing.
        return replies + prepare(group, limits, now)
    if group.state is not State.STABLE:
        return replies + complete_if_joined(group, now)
    if group.protocol_name != select_protocol(group.members) or same_topics != _topics(
        group, former.metadata(group.protocol_name)
    ):
        return replies + prepare(group, limits, now)
    answer = joined(group, former, skip_assignment=True)
    if not asked.can_skip_assignment:
        # Told that the old id leads, it does not assign anew and takes what it had.
        answer = Joined(
            member_id=former.id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=led_by or NO_MEMBER,
        )
    return replies + answer_join(former, answer)


def _topics(group: Group, metadata: bytes) -> frozenset[str] | None:
    return subscribed_topics(metadata) if group.protocol_type == CONSUMER else None
