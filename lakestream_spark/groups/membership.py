"""Staying and leaving: heartbeats, LeaveGroup, and what happens when nobody says anything."""

from collections.abc import Sequence
from math import inf

from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import Group, State
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import (
    NO_MEMBER,
    Caller,
    Joined,
    Left,
    Reply,
    Synced,
    Ticket,
)
from lakestream_spark.groups.rebalance import (
    answer_join,
    answer_sync,
    drop,
    join_time_is_up,
    prepare,
    rebalance_or_complete,
)


def heartbeat(group: Group, caller: Caller, now: float) -> ErrorCode:
    """A sign of life; tells a member to join again while the group gathers."""
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    refused = group.check_generation(caller)
    if refused is not ErrorCode.none:
        return refused
    group.members[caller.member_id].alive(now)
    gathering = group.state is State.PREPARING
    return ErrorCode.rebalance_in_progress if gathering else ErrorCode.none


def leave(
    group: Group, limits: GroupLimits, leaving: Sequence[Caller], now: float
) -> tuple[list[Left], list[Reply]]:
    """Take members out by their id, or static ones by their instance id alone."""
    results: list[Left] = []
    replies: list[Reply] = []
    for caller in leaving:
        error, own = _leave(group, caller)
        results.append(Left(caller, error))
        replies += own
    if any(left.error is ErrorCode.none for left in results):
        replies += _membership_changed(group, limits, now)
    return results, replies


def _leave(group: Group, caller: Caller) -> tuple[ErrorCode, list[Reply]]:
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available, []
    if group.pending.pop(caller.member_id, None) is not None:
        return ErrorCode.none, []
    member = group.member_of(caller.instance_id)
    if caller.member_id != NO_MEMBER or member is None:
        refused = group.check(caller)
        if refused is not ErrorCode.none:
            return refused, []
        member = group.members[caller.member_id]
    return ErrorCode.none, drop(group, member)


def hung_up(group: Group, limits: GroupLimits, ticket: Ticket, now: float) -> list[Reply]:
    """Whoever waited under the ticket did not stay for the answer. A member that is in no
    generation yet is out; another has its session time to come back."""
    waited = (m for m in group.members.values() if ticket in (m.joining, m.syncing))
    member = next(waited, None)
    if member is None:
        return []
    member.joining = member.syncing = None
    if member.is_new:
        return drop(group, member) + _membership_changed(group, limits, now)
    member.alive(now)
    return []


def _membership_changed(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    if group.state is State.EMPTY:
        return []
    return rebalance_or_complete(group, limits, now)


def tick(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    """Do what is due by now: sessions, ids never used, and the ends of the phases."""
    replies = _expire_members(group, limits, now)
    if group.join_deadline <= now:
        replies += join_time_is_up(group, limits, now)
    if group.sync_deadline <= now:
        replies += _expire_syncs(group, limits, now)
    return replies


def _expire_members(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    unused = [member_id for member_id, until in group.pending.items() if until <= now]
    for member_id in unused:
        del group.pending[member_id]
    silent = [member for member in group.members.values() if member.deadline <= now]
    replies = [reply for member in silent for reply in drop(group, member)]
    changed = silent or (unused and group.state is State.PREPARING)
    return replies + _membership_changed(group, limits, now) if changed else replies


def _expire_syncs(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    """Members that joined and never fetched their assignment are out."""
    group.sync_deadline = inf
    owing = [member for member in group.members.values() if member.owes_sync]
    replies = [reply for member in owing for reply in drop(group, member)]
    return replies + prepare(group, limits, now) if owing else replies


def dissolve(group: Group, error: ErrorCode) -> list[Reply]:
    """The group ends here: all that wait are told why, and nothing is accepted any more."""
    replies = []
    for member in group.members.values():
        replies += answer_join(member, Joined(error=error, member_id=member.id))
        replies += answer_sync(member, Synced(error=error))
    group.state = State.DEAD
    group.members.clear()
    group.pending.clear()
    group.join_deadline = group.sync_deadline = inf
    group.leader = None
    return replies
