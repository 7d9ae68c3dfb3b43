"""Drives the state machine of one group by hand: requests go in, answers are kept by ticket."""

import struct
from itertools import count
from typing import Any

from kio.schema.errors import ErrorCode

from lakestream_spark.groups import membership
from lakestream_spark.groups.group import Group, State
from lakestream_spark.groups.join import join
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import (
    Answer,
    Caller,
    Join,
    Joined,
    Left,
    Protocol,
    Reply,
    Sync,
    Synced,
    Ticket,
)
from lakestream_spark.groups.offsets import check_commit
from lakestream_spark.groups.sync import sync

TEST_LIMITS = GroupLimits(min_session_timeout_ms=100)


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, as every version of it begins."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class GroupDriver:
    """A group, its clock, and what was answered so far. New members get the ids m1, m2, ..."""

    def __init__(self, limits: GroupLimits = TEST_LIMITS) -> None:
        self.group = Group(id="g")
        self.limits = limits
        self.now = 1000.0
        self.answers: dict[Ticket, Answer] = {}
        self.asked: set[Ticket] = set()
        self._tickets = count(1)
        self._ids = count(1)

    @property
    def state(self) -> State:
        return self.group.state

    def is_in(self, state: State) -> bool:
        return self.group.state is state

    @property
    def waiting(self) -> set[Ticket]:
        return self.asked - set(self.answers)

    def start_join(self, member_id: str = "", **changes: Any) -> Ticket:
        """Ask to join; the answer may come later."""
        values: dict[str, Any] = {
            "protocol_type": "consumer",
            "protocols": (Protocol("range", subscription("orders")),),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "must_know_id": False,
        }
        asked = Join(member_id=member_id, new_member_id=f"m{next(self._ids)}", **values | changes)
        ticket = self._ticket()
        self._take(join(self.group, self.limits, asked, ticket, self.now))
        return ticket

    def join(self, member_id: str = "", **changes: Any) -> Joined:
        return self.joined(self.start_join(member_id, **changes))

    def joined(self, ticket: Ticket) -> Joined:
        answer = self.answers[ticket]
        assert isinstance(answer, Joined)
        return answer

    def start_sync(self, member: Joined, assignments: dict[str, bytes] | None = None) -> Ticket:
        ticket = self._ticket()
        caller = Caller(member.member_id, None, member.generation)
        asked = Sync(caller=caller, assignments=assignments or {})
        self._take(sync(self.group, asked, ticket, self.now))
        return ticket

    def sync_as(self, caller: Caller, **changes: Any) -> Synced:
        ticket = self._ticket()
        self._take(
            sync(self.group, Sync(caller=caller, assignments={}, **changes), ticket, self.now)
        )
        return self.synced(ticket)

    def synced(self, ticket: Ticket) -> Synced:
        answer = self.answers[ticket]
        assert isinstance(answer, Synced)
        return answer

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return membership.heartbeat(self.group, Caller(member_id, instance, generation), self.now)

    def commit(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return check_commit(self.group, Caller(member_id, instance, generation), self.now)

    def leave(self, *callers: Caller) -> list[Left]:
        left, replies = membership.leave(self.group, self.limits, callers, self.now)
        self._take(replies)
        return left

    def advance(self, seconds: float) -> None:
        """Let time pass as the service does: the group is looked at when it asked for it."""
        end = self.now + seconds
        while (due := self.group.next_deadline) <= end:
            self.now = max(self.now, due)
            self.tick()
        self.now = end

    def tick(self) -> None:
        self._take(membership.tick(self.group, self.limits, self.now))

    def dissolve(self, error: ErrorCode) -> None:
        self._take(membership.dissolve(self.group, error))

    def stable(self, members: int = 1, **changes: Any) -> list[Joined]:
        """Bring an empty group to a stable generation of so many members."""
        first = self.join(**changes)
        tickets = [self.start_join(**changes) for _ in range(members - 1)]
        if tickets:
            tickets.append(self.start_join(first.member_id, **changes))
        joined = [self.joined(ticket) for ticket in tickets] or [first]
        leader = next(each for each in joined if each.leader == each.member_id)
        plan = {each.member_id: f"of {each.member_id}".encode() for each in joined}
        for each in (*(each for each in joined if each is not leader), leader):
            self.start_sync(each, plan if each is leader else None)
        assert self.state is State.STABLE
        return sorted(joined, key=lambda each: each.member_id)

    def _ticket(self) -> Ticket:
        ticket = Ticket(next(self._tickets))
        self.asked.add(ticket)
        return ticket

    def _take(self, replies: list[Reply]) -> None:
        for ticket, answer in replies:
            assert ticket not in self.answers, "a request was answered twice"
            self.answers[ticket] = answer
