"""Which offset commits and deletions a group accepts. Reading is always allowed."""

from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import Group, State
from lakestream_spark.groups.messages import NO_MEMBER, Caller
from lakestream_spark.groups.subscription import CONSUMER, subscribed_topics


def check_commit(group: Group, caller: Caller, now: float) -> ErrorCode:
    """Members commit in their generation; anybody does while the group is empty.

    A commit is a sign of life, as in Kafka.
    """
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    unmanaged = caller.generation < 0
    if unmanaged and group.state is State.EMPTY:
        return ErrorCode.none
    if unmanaged and caller.member_id == NO_MEMBER and caller.instance_id is None:
        return ErrorCode.unknown_member_id
    refused = group.check_generation(caller)
    if refused is not ErrorCode.none:
        return refused
    if group.state is State.COMPLETING:
        return ErrorCode.rebalance_in_progress
    group.members[caller.member_id].alive(now)
    return ErrorCode.none


def check_deletion(group: Group) -> ErrorCode:
    """Whether offsets of the group may be deleted at all."""
    if group.state is State.DEAD:
        return ErrorCode.group_id_not_found
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.non_empty_group
    return ErrorCode.none


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether a member reads the topic, or might: then its offsets are in use."""
    if group.state is State.EMPTY or group.protocol_type != CONSUMER:
        return False
    for member in group.members.values():
        protocol = group.protocol_name or next((p.name for p in member.protocols), None)
        topics = subscribed_topics(member.metadata(protocol))
        if topics is None or topic in topics:
            return True
    return False
