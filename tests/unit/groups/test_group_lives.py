"""Random lives of one group: after every step what always holds of a group holds."""

from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import State
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import Caller, Joined, Protocol, Synced, Ticket
from tests.support.group_driver import GroupDriver, subscription

INSTANCES = st.sampled_from([None, None, "i1", "i2"])
TOPICS = st.sampled_from(["orders", "payments"])
SECONDS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 60.0, 400.0])


class GroupLife(RuleBasedStateMachine):
    """Members come, sync, stay, leave, change and fall silent, some of them out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = GroupDriver()
        self.generation = 0
        self.known: dict[str, str | None] = {}
        self.joins: dict[Ticket, None] = {}
        self.assigned: dict[int, dict[str, bytes]] = {}
        self.leaders: dict[int, str] = {}
        self.led: set[int] = set()

    @rule(
        delay_ms=st.sampled_from([0, 0, 1000]),
        max_size=st.sampled_from([2, 100]),
    )
    @precondition(lambda self: not self.driver.asked)
    def choose_limits(self, delay_ms: int, max_size: int) -> None:
        limits = GroupLimits(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.driver = GroupDriver(limits)

    @rule(instance=INSTANCES, must_know_id=st.booleans(), topic=TOPICS, skip=st.booleans())
    def come(self, instance: str | None, must_know_id: bool, topic: str, skip: bool) -> None:
        ticket = self.driver.start_join(
            instance_id=instance,
            must_know_id=must_know_id,
            protocols=(Protocol("range", subscription(topic)),),
            can_skip_assignment=skip,
        )
        self._joined(ticket, instance)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), topic=TOPICS)
    def come_again(self, data: st.DataObject, topic: str) -> None:
        member = data.draw(st.sampled_from(sorted(self.known)))
        ticket = self.driver.start_join(
            member,
            instance_id=self.known[member],
            protocols=(Protocol("range", subscription(topic)),),
        )
        self._joined(ticket, self.known[member])

    @precondition(lambda self: self.known)
    @rule(data=st.data(), late=st.integers(0, 1))
    def sync(self, data: st.DataObject, late: int) -> None:
        member = data.draw(st.sampled_from(sorted(self.known)))
        group = self.driver.group
        caller = Joined(member_id=member, generation=group.generation - late)
        plan = {each: b"%d of %b" % (group.generation, each.encode()) for each in group.members}
        self.assigned.setdefault(group.generation, plan)
        self.driver.start_sync(caller, plan)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(sorted(self.known)))
        self.driver.heartbeat(member, self.driver.group.generation, self.known[member])

    @precondition(lambda self: self.known)
    @rule(data=st.data(), by_instance=st.booleans())
    def leave(self, data: st.DataObject, by_instance: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.known)))
        instance = self.known[member]
        alone = by_instance and instance is not None
        self.driver.leave(Caller("" if alone else member, instance))

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: float) -> None:
        self.driver.advance(seconds)

    def _joined(self, ticket: Ticket, instance: str | None) -> None:
        self.joins[ticket] = None
        for member in self.driver.group.members.values():
            self.known[member.id] = member.instance_id
        for pending in self.driver.group.pending:
            self.known[pending] = None

    @invariant()
    def the_generation_never_falls(self) -> None:
        assert self.driver.group.generation >= self.generation
        self.generation = self.driver.group.generation

    @invariant()
    def a_generation_is_answered_with_one_leader_that_is_in_it(self) -> None:
        for ticket in self.joins:
            answer = self.driver.answers.get(ticket)
            if not isinstance(answer, Joined) or answer.error is not ErrorCode.none:
                continue
            if ticket in self.led:
                continue  # Seen: its leader may have come back under another id since.
            self.led.add(ticket)
            if not answer.members and answer.leader != answer.member_id:
                continue
            leader = self.leaders.setdefault(answer.generation, answer.member_id)
            returned = answer.skip_assignment
            assert leader == answer.member_id or returned
            self.leaders[answer.generation] = answer.member_id
            assert answer.leader in {member.member_id for member in answer.members}

    @invariant()
    def a_member_of_a_stable_generation_has_its_assignment(self) -> None:
        group = self.driver.group
        if group.state is not State.STABLE:
            return
        assert group.leader in group.members
        for member in group.members.values():
            assert (member.syncing, member.joining) == (None, None)
            assert member.assignment.startswith(b"%d of " % group.generation)

    @invariant()
    def every_ticket_is_answered_or_parked(self) -> None:
        members = self.driver.group.members.values()
        joining = {member.joining for member in members} - {None}
        syncing = {member.syncing for member in members} - {None}
        assert self.driver.waiting == joining | syncing

    @invariant()
    def no_timer_is_lost(self) -> None:
        group = self.driver.group
        assert not (group.state is State.EMPTY and group.members)
        if group.state is not State.EMPTY or group.pending:
            assert self.driver.now <= group.next_deadline < inf
        if group.state is State.PREPARING:
            assert group.join_deadline < inf

    @invariant()
    def what_is_served_is_of_this_generation(self) -> None:
        for answer in self.driver.answers.values():
            if isinstance(answer, Synced) and answer.error is ErrorCode.none:
                assert answer.assignment.split(b" ")[0].isdigit()

    @invariant()
    def an_instance_is_in_the_group_once(self) -> None:
        instances = [m.instance_id for m in self.driver.group.members.values() if m.instance_id]
        assert len(instances) == len(set(instances))

    def teardown(self) -> None:
        """Left alone, everybody is answered and the group becomes empty."""
        self.driver.advance(10_000)
        assert not self.driver.waiting
        assert self.driver.state is State.EMPTY
        assert not self.driver.group.pending


TestGroupLife = GroupLife.TestCase
