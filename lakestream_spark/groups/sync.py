"""SyncGroup: the leader hands in the assignments, everybody gets their own."""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import Group, Member, State
from lakestream_spark.groups.messages import Reply, Sync, Synced, Ticket
from lakestream_spark.groups.rebalance import answer_sync, settle_sync


def sync(group: Group, asked: Sync, ticket: Ticket, now: float) -> list[Reply]:
    """Replies to this and to parked requests."""
    refused = _check(group, asked)
    if refused is not ErrorCode.none:
        return [Reply(ticket, Synced(error=refused))]
    member = group.members[asked.caller.member_id]
    member.owes_sync = False
    settle_sync(group)
    if group.state is State.STABLE:
        return [Reply(ticket, _synced(group, member))]
    replies = answer_sync(member, Synced(error=ErrorCode.rebalance_in_progress))
    member.syncing = ticket
    if group.leader == member.id:
        replies += _assign(group, asked.assignments, now)
    return replies


def _check(group: Group, asked: Sync) -> ErrorCode:
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    refused = group.check_generation(asked.caller)
    if refused is not ErrorCode.none:
        return refused
    if asked.protocol_type not in (None, group.protocol_type):
        return ErrorCode.inconsistent_group_protocol
    if asked.protocol_name not in (None, group.protocol_name):
        return ErrorCode.inconsistent_group_protocol
    if group.state is State.PREPARING:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _assign(group: Group, assignments: Mapping[str, bytes], now: float) -> list[Reply]:
    """The generation is stable: all that wait get theirs; one that was forgotten gets nothing."""
    group.state = State.STABLE
    replies = []
    for member in group.members.values():
        member.assignment = assignments.get(member.id, b"")
        if answered := answer_sync(member, _synced(group, member)):
            replies += answered
            member.alive(now)
    return replies


def _synced(group: Group, member: Member) -> Synced:
    return Synced(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
