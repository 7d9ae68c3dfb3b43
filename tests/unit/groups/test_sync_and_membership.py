"""SyncGroup, Heartbeat, LeaveGroup, static members, and what silence does."""

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import State
from lakestream_spark.groups.messages import Caller, Joined, Protocol
from tests.support.group_driver import GroupDriver, subscription


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def in_state(state: State) -> GroupDriver:
    """A group of one member, m1, generation 1, brought to a state."""
    driver = GroupDriver()
    match state:
        case State.EMPTY:
            driver.join(must_know_id=True)
        case State.COMPLETING:
            driver.join()
        case State.STABLE:
            driver.stable()
        case State.PREPARING:
            driver.stable()
            driver.start_join()
        case State.DEAD:
            driver.stable()
            driver.dissolve(ErrorCode.not_coordinator)
    assert driver.state is state
    return driver


REBALANCING, UNKNOWN = ErrorCode.rebalance_in_progress, ErrorCode.unknown_member_id
GONE, OLD = ErrorCode.coordinator_not_available, ErrorCode.illegal_generation
NONE, FENCED = ErrorCode.none, ErrorCode.fenced_instance_id


@pytest.mark.parametrize(
    ("state", "member", "generation", "instance", "error"),
    [
        (State.EMPTY, "m1", 0, None, UNKNOWN),
        (State.PREPARING, "m1", 1, None, REBALANCING),
        (State.PREPARING, "m1", 0, None, OLD),
        (State.PREPARING, "x", 1, None, UNKNOWN),
        (State.COMPLETING, "m1", 1, None, NONE),
        (State.COMPLETING, "m1", 2, None, OLD),
        (State.STABLE, "m1", 1, None, NONE),
        (State.STABLE, "m1", 0, None, OLD),
        (State.STABLE, "m1", -1, None, OLD),
        (State.STABLE, "x", 1, None, UNKNOWN),
        (State.STABLE, "m1", 1, "x", UNKNOWN),
        (State.DEAD, "m1", 1, None, GONE),
    ],
)
def test_heartbeat(state, member, generation, instance, error):
    assert in_state(state).heartbeat(member, generation, instance) is error


@pytest.mark.parametrize(
    ("state", "caller", "error"),
    [
        (State.EMPTY, Caller("m1", None, 0), UNKNOWN),
        (State.PREPARING, Caller("m1", None, 1), REBALANCING),
        (State.PREPARING, Caller("m1", None, 2), OLD),
        (State.COMPLETING, Caller("m1", None, 0), OLD),
        (State.COMPLETING, Caller("x", None, 1), UNKNOWN),
        (State.COMPLETING, Caller("m1", None, 1), NONE),
        (State.STABLE, Caller("m1", None, 1), NONE),
        (State.STABLE, Caller("m1", "x", 1), UNKNOWN),
        (State.DEAD, Caller("m1", None, 1), GONE),
    ],
)
def test_sync(state, caller, error):
    assert in_state(state).sync_as(caller).error is error


@pytest.mark.parametrize(
    ("state", "member", "generation", "instance", "error"),
    [
        (State.EMPTY, "", -1, None, NONE),
        (State.EMPTY, "anything", -1, None, NONE),
        (State.EMPTY, "m1", 0, None, UNKNOWN),
        (State.EMPTY, "m1", 1, None, UNKNOWN),
        (State.PREPARING, "m1", 1, None, NONE),
        (State.PREPARING, "m1", 0, None, OLD),
        (State.PREPARING, "", -1, None, UNKNOWN),
        (State.COMPLETING, "m1", 1, None, REBALANCING),
        (State.COMPLETING, "m1", 0, None, OLD),
        (State.STABLE, "m1", 1, None, NONE),
        (State.STABLE, "m1", 2, None, OLD),
        (State.STABLE, "", -1, None, UNKNOWN),
        (State.STABLE, "m1", -1, None, OLD),
        (State.STABLE, "x", 1, None, UNKNOWN),
        (State.STABLE, "m1", 1, "x", UNKNOWN),
        (State.DEAD, "m1", 1, None, GONE),
    ],
)
def test_offset_commit(state, member, generation, instance, error):
    assert in_state(state).commit(member, generation, instance) is error


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({}, NONE),
        ({"protocol_type": "consumer", "protocol_name": "range"}, NONE),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_name": "sticky"}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_a_member_that_names_a_protocol_means_the_one_of_its_generation(driver, named, error):
    driver.join()
    assert driver.sync_as(Caller("m1", None, 1), **named).error is error


def test_all_get_their_assignment_when_the_leader_has_made_it(driver):
    first = driver.join()
    second = driver.start_join()
    first = driver.join(first.member_id)
    second = driver.joined(second)
    waiting = driver.start_sync(second)
    assert waiting in driver.waiting
    leading = driver.start_sync(first, {"m1": b"one", "m2": b"two"})
    assert driver.synced(waiting).assignment == b"two"
    assert driver.synced(leading).assignment == b"one"
    assert driver.synced(leading).protocol_name == "range"
    assert driver.is_in(State.STABLE)


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(driver):
    first = driver.join()
    ticket = driver.start_sync(first, {"somebody else": b"x"})
    assert driver.synced(ticket).assignment == b""


def test_a_late_member_gets_its_assignment_from_the_stable_group(driver):
    driver.join()
    second = driver.start_join()
    first = driver.join("m1")
    driver.start_sync(first, {"m2": b"two"})
    assert driver.sync_as(Caller("m2", None, 2)).assignment == b"two"
    assert driver.joined(second).error is NONE


def test_a_sync_that_is_asked_again_answers_the_first_one(driver):
    driver.join()
    driver.start_join()
    driver.join("m1")
    second = driver.joined(max(driver.answers))
    member = next(m for m in second.members if m.member_id == "m2")
    follower = driver.start_sync(_as(second, member.member_id))
    again = driver.start_sync(_as(second, member.member_id))
    assert driver.synced(follower).error is REBALANCING
    assert again in driver.waiting


def _as(joined: Joined, member_id: str) -> Joined:
    return Joined(member_id=member_id, generation=joined.generation)


def test_members_that_wait_for_assignments_are_sent_back_when_somebody_comes(driver):
    driver.join()
    driver.start_join()
    leader = driver.join("m1")
    waiting = driver.start_sync(_as(leader, "m2"))
    driver.start_join()
    assert driver.synced(waiting).error is REBALANCING
    assert driver.is_in(State.PREPARING)


def test_members_that_never_fetch_their_assignment_are_out_after_the_rebalance_timeout(driver):
    driver.join(rebalance_timeout_ms=5_000)
    driver.start_join(rebalance_timeout_ms=5_000)
    leader = driver.join("m1", rebalance_timeout_ms=5_000)
    driver.start_sync(leader, {})
    assert driver.is_in(State.STABLE)
    driver.advance(4.9)
    assert driver.is_in(State.STABLE)
    driver.advance(0.1)
    assert driver.is_in(State.PREPARING)
    assert set(driver.group.members) == {"m1"}


def test_a_leader_that_never_assigns_is_out_and_the_others_join_again(driver):
    driver.join(rebalance_timeout_ms=5_000)
    driver.start_join(rebalance_timeout_ms=5_000)
    leader = driver.join("m1", rebalance_timeout_ms=5_000)
    waiting = driver.start_sync(_as(leader, "m2"))
    driver.advance(5)
    assert driver.synced(waiting).error is REBALANCING
    assert driver.join("m2").leader == "m2"


def test_a_member_without_heartbeats_is_out_after_its_session_time(driver):
    driver.stable(2)
    driver.advance(5)
    assert driver.heartbeat("m1", 2) is NONE
    driver.advance(5)
    assert driver.is_in(State.PREPARING)
    assert set(driver.group.members) == {"m1"}
    assert driver.heartbeat("m2", 2) is UNKNOWN


def test_a_commit_is_a_sign_of_life(driver):
    driver.stable()
    for _ in range(4):
        driver.advance(8)
        assert driver.commit("m1", 1) is NONE
    driver.advance(10)
    assert driver.is_in(State.EMPTY)


def test_a_group_whose_last_member_goes_is_empty_and_its_generation_goes_on(driver):
    driver.stable()
    driver.advance(10)
    assert (driver.state, driver.group.generation) == (State.EMPTY, 2)
    assert driver.group.leader is None
    assert driver.join(protocol_type="other").generation == 3


class TestLeave:
    def test_the_others_rebalance_when_a_member_leaves(self, driver):
        driver.stable(2)
        assert [left.error for left in driver.leave(Caller("m2"))] == [NONE]
        assert driver.is_in(State.PREPARING)
        assert [m.member_id for m in driver.join("m1").members] == ["m1"]

    def test_when_the_leader_leaves_another_leads(self, driver):
        driver.stable(2)
        leader = driver.group.leader
        driver.leave(Caller(leader))
        (other,) = driver.group.members
        assert driver.join(other).leader == other

    def test_each_of_a_batch_has_its_own_outcome(self, driver):
        driver.stable(1, instance_id="i1")
        driver.start_join(instance_id="i2")
        driver.start_join("m1", instance_id="i1")
        left = driver.leave(
            Caller("", "i1"), Caller("", "nobody"), Caller("x"), Caller("old", "i2"), Caller("")
        )
        assert [each.error for each in left] == [NONE, UNKNOWN, UNKNOWN, FENCED, UNKNOWN]
        assert {member.instance_id for member in driver.group.members.values()} == {"i2"}

    def test_one_that_was_only_told_its_id_can_leave(self, driver):
        (first,) = driver.stable()
        required = driver.join(must_know_id=True)
        again = driver.start_join(first.member_id)
        assert [left.error for left in driver.leave(Caller(required.member_id))] == [NONE]
        assert driver.joined(again).generation == 2

    def test_a_waiting_join_is_answered_when_its_member_leaves(self, driver):
        driver.stable()
        waiting = driver.start_join()
        driver.leave(Caller("m2"))
        assert driver.joined(waiting).error is UNKNOWN

    def test_a_waiting_sync_is_answered_when_its_member_leaves(self, driver):
        driver.join()
        driver.start_join()
        leader = driver.join("m1")
        waiting = driver.start_sync(_as(leader, "m2"))
        driver.leave(Caller("m2"))
        assert driver.synced(waiting).error is UNKNOWN

    def test_nobody_leaves_a_dead_group(self):
        driver = in_state(State.DEAD)
        assert [left.error for left in driver.leave(Caller("m1"))] == [GONE]


class TestStaticMembers:
    """`group.instance.id`"""

    def test_one_that_comes_back_to_a_stable_group_keeps_its_assignment(self, driver):
        driver.stable(1, instance_id="i1")
        back = driver.join(instance_id="i1")
        assert (back.error, back.generation, back.member_id) == (NONE, 1, "m2")
        assert driver.is_in(State.STABLE)
        assert driver.sync_as(Caller("m2", "i1", 1)).assignment == b"of m1"

    def test_a_returning_leader_that_cannot_skip_is_told_that_its_old_id_leads(self, driver):
        driver.stable(1, instance_id="i1")
        back = driver.join(instance_id="i1")
        assert (back.leader, back.members, back.skip_assignment) == ("m1", (), False)

    def test_a_returning_leader_that_can_skip_is_told_to(self, driver):
        driver.stable(1, instance_id="i1")
        back = driver.join(instance_id="i1", can_skip_assignment=True)
        assert (back.leader, back.skip_assignment) == ("m2", True)
        assert [member.member_id for member in back.members] == ["m2"]

    @pytest.mark.parametrize("what", ["heartbeat", "commit"])
    def test_the_former_self_is_fenced(self, driver, what):
        driver.stable(1, instance_id="i1")
        driver.join(instance_id="i1")
        assert getattr(driver, what)("m1", 1, "i1") is FENCED
        assert driver.sync_as(Caller("m1", "i1", 1)).error is FENCED
        assert driver.join("m1", instance_id="i1").error is FENCED

    def test_a_waiting_former_self_is_fenced_at_once(self, driver):
        driver.stable()
        waiting = driver.start_join(instance_id="i1")
        back = driver.start_join(instance_id="i1")
        assert driver.joined(waiting).error is FENCED
        assert back in driver.waiting

    def test_one_that_comes_back_for_other_topics_starts_a_rebalance(self, driver):
        driver.stable(1, instance_id="i1")
        back = driver.join(instance_id="i1", protocols=(Protocol("range", subscription("x")),))
        assert back.generation == 2

    def test_one_that_comes_back_with_other_bytes_for_the_same_topics_does_not(self, driver):
        driver.stable(1, instance_id="i1")
        protocols = (Protocol("range", subscription("orders") + b"owned: none"),)
        assert driver.join(instance_id="i1", protocols=protocols).generation == 1

    def test_one_that_changes_the_chosen_protocol_starts_a_rebalance(self, driver):
        names = ("range", "sticky")
        protocols = tuple(Protocol(name, subscription("orders")) for name in names)
        driver.stable(1, instance_id="i1", protocols=protocols)
        assert driver.join(instance_id="i1", protocols=protocols[::-1]).generation == 2

    def test_one_that_comes_back_before_the_sync_starts_a_rebalance(self, driver):
        driver.join(instance_id="i1")
        back = driver.join(instance_id="i1")
        assert (back.generation, back.leader) == (2, "m2")

    def test_one_that_is_gone_for_its_session_time_is_out(self, driver):
        driver.stable(1, instance_id="i1")
        driver.advance(10)
        assert driver.is_in(State.EMPTY)


def test_a_dissolved_group_answers_everybody_that_waits(driver):
    driver.join()
    driver.start_join()
    leader = driver.join("m1")
    syncing = driver.start_sync(_as(leader, "m2"))
    driver.dissolve(ErrorCode.not_coordinator)
    assert driver.synced(syncing).error is ErrorCode.not_coordinator
    assert not driver.waiting
    assert driver.group.next_deadline == float("inf")


def test_cooperative_members_rebalance_twice_and_keep_what_they_own(driver):
    """The broker needs to know nothing of it: a member gives up partitions by joining again."""
    protocols = (Protocol("cooperative-sticky", subscription("orders")),)
    driver.stable(1, protocols=protocols)
    newcomer = driver.start_join(protocols=protocols)
    leader = driver.join("m1", protocols=protocols)
    driver.start_sync(_as(leader, "m2"))
    driver.start_sync(leader, {"m1": b"p0", "m2": b""})
    second = driver.start_join("m1", protocols=protocols)
    driver.start_join("m2", protocols=protocols)
    leader = driver.joined(second)
    assert leader.generation == driver.joined(newcomer).generation + 1
    taking = driver.start_sync(_as(leader, "m2"))
    driver.start_sync(leader, {"m1": b"p0", "m2": b"p1"})
    assert driver.synced(taking).assignment == b"p1"
