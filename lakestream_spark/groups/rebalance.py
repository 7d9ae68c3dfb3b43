"""The rebalance itself: everybody joins, one generation begins, everybody syncs.

    Empty ─► PreparingRebalance ─► CompletingRebalance ─► Stable
                    ▲                       │               │
                    └───────────────────────┴───────────────┘ a member comes, goes or changes

What always holds: a generation begins with the members whose join is parked, and static members
that have not been missing for their session time; the leader is one of those that joined.
"""

from math import inf

from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import Group, Member, State, select_protocol
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import NO_MEMBER, Joined, Reply, Synced


def rebalance_or_complete(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    """After a change of membership: begin a rebalance, or end the one that waited for it."""
    if group.state in (State.EMPTY, State.COMPLETING, State.STABLE):
        return prepare(group, limits, now)
    return complete_if_joined(group, now)


def prepare(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    """Ask all members to join again."""
    replies = _refuse_syncs(group, now) if group.state is State.COMPLETING else []
    group.sync_deadline = inf
    for member in group.members.values():
        member.owes_sync = False
    first = group.state is State.EMPTY
    group.state = State.PREPARING
    if first:
        return replies + _prepare_first(group, limits, now)
    if group.all_joined:
        return replies + complete_join(group, now)
    group.join_deadline = now + group.rebalance_timeout_s
    return replies


def _prepare_first(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    """A group that was empty gives others some time to come, if it is told to."""
    delay_ms = limits.initial_rebalance_delay_ms
    if delay_ms == 0:
        return complete_join(group, now)
    group.initial_left_ms = max(int(group.rebalance_timeout_s * 1000) - delay_ms, 0)
    group.join_deadline = now + delay_ms / 1000
    group.newcomers = False
    return []


def complete_if_joined(group: Group, now: float) -> list[Reply]:
    """End the join phase if it waits for nobody; the first one lasts as long as it was set to."""
    waiting = group.state is State.PREPARING and group.initial_left_ms is None
    return complete_join(group, now) if waiting and group.all_joined else []


def join_time_is_up(group: Group, limits: GroupLimits, now: float) -> list[Reply]:
    """The join phase has lasted as long as it may; the first one is put off for newcomers."""
    left_ms = group.initial_left_ms
    if left_ms and group.newcomers:
        delay_ms = min(limits.initial_rebalance_delay_ms, left_ms)
        group.initial_left_ms = left_ms - delay_ms
        group.join_deadline = now + delay_ms / 1000
        group.newcomers = False
        return []
    return complete_join(group, now)


def complete_join(group: Group, now: float) -> list[Reply]:
    """Go on without the dynamic members that did not join: the next generation begins."""
    for member in list(group.members.values()):
        if member.joining is None and member.instance_id is None:
            drop(group, member)  # Nothing of it is parked: it would have joined.
    group.initial_left_ms = None
    if group.members and not _elect_joined_leader(group):
        # Only silent static members are left: wait until they join or their sessions end.
        group.join_deadline = now + max(group.rebalance_timeout_s, 0.001)
        return []
    group.join_deadline = inf
    group.generation += 1
    if not group.members:
        group.state, group.protocol_name, group.leader = State.EMPTY, None, None
        return []
    group.protocol_name = select_protocol(group.members)
    group.state = State.COMPLETING
    group.sync_deadline = now + group.rebalance_timeout_s
    replies = []
    for member in group.members.values():
        replies += answer_join(member, joined(group, member))
        member.alive(now)
        member.is_new = False
        member.owes_sync = True
    return replies


def _elect_joined_leader(group: Group) -> bool:
    """Keep the leader if it joined, or choose one that did; False when nobody has."""
    leader = group.members.get(group.leader or NO_MEMBER)
    if leader is None or leader.joining is None:
        leader = next((m for m in group.members.values() if m.joining is not None), None)
    if leader is None:
        return False
    group.leader = leader.id
    return True


def joined(group: Group, member: Member, *, skip_assignment: bool = False) -> Joined:
    """The answer that lets a member go on to sync in this generation."""
    leads = group.leader == member.id
    return Joined(
        member_id=member.id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or NO_MEMBER,
        members=group.joined_members() if leads else (),
        skip_assignment=skip_assignment and leads,
    )


def drop(group: Group, member: Member) -> list[Reply]:
    """Take a member out, telling what it still waits for that it is out."""
    gone = ErrorCode.unknown_member_id
    replies = answer_join(member, Joined(error=gone, member_id=NO_MEMBER))
    replies += answer_sync(member, Synced(error=gone))
    del group.members[member.id]
    if group.leader == member.id:
        group.leader = next(iter(group.members), None)
    settle_sync(group)
    return replies


def settle_sync(group: Group) -> None:
    """The sync phase ends when nobody owes a sync any more."""
    if not any(member.owes_sync for member in group.members.values()):
        group.sync_deadline = inf


def answer_join(member: Member, answer: Joined) -> list[Reply]:
    ticket, member.joining = member.joining, None
    return [] if ticket is None else [Reply(ticket, answer)]


def answer_sync(member: Member, answer: Synced) -> list[Reply]:
    ticket, member.syncing = member.syncing, None
    return [] if ticket is None else [Reply(ticket, answer)]


def _refuse_syncs(group: Group, now: float) -> list[Reply]:
    """Members that wait for their assignment have to join again."""
    replies = []
    for member in group.members.values():
        member.assignment = b""
        if refused := answer_sync(member, Synced(error=ErrorCode.rebalance_in_progress)):
            replies += refused
            member.alive(now)
    return replies
