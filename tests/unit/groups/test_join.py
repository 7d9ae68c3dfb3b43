"""JoinGroup: who gets in, who leads, when a generation begins."""

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.groups.group import State
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import Caller, Protocol
from tests.support.group_driver import GroupDriver, subscription

RANGE = Protocol("range", subscription("orders"))
STICKY = Protocol("cooperative-sticky", subscription("orders"))


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def test_the_first_member_leads_the_first_generation(driver):
    joined = driver.join()
    assert (joined.error, joined.generation, joined.leader) == (ErrorCode.none, 1, "m1")
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [member.member_id for member in joined.members] == ["m1"]
    assert driver.is_in(State.COMPLETING)


def test_a_new_member_is_told_its_id_first(driver):
    required = driver.join(must_know_id=True)
    assert required.error is ErrorCode.member_id_required
    assert driver.is_in(State.EMPTY)
    joined = driver.join(required.member_id, must_know_id=True)
    assert (joined.error, joined.member_id) == (ErrorCode.none, required.member_id)


def test_an_id_that_is_never_used_is_forgotten_after_the_session_time(driver):
    required = driver.join(must_know_id=True)
    driver.advance(10)
    assert driver.join(required.member_id).error is ErrorCode.unknown_member_id


def test_a_handed_out_id_holds_up_a_rebalance_until_it_is_used_or_forgotten(driver):
    (first,) = driver.stable()
    driver.join(must_know_id=True)
    again = driver.start_join(first.member_id)
    assert again in driver.waiting
    driver.advance(10)
    assert driver.joined(again).generation == 2


def test_a_static_member_needs_not_know_its_id(driver):
    joined = driver.join(must_know_id=True, instance_id="i1")
    assert (joined.error, joined.member_id) == (ErrorCode.none, "m1")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"member_id": "stranger", "instance_id": "i"}, ErrorCode.unknown_member_id),
    ],
)
def test_an_empty_group_refuses(driver, changes, error):
    assert driver.join(**changes).error is error
    assert driver.is_in(State.EMPTY)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": (STICKY,)}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"member_id": "stranger", "instance_id": "i"}, ErrorCode.unknown_member_id),
        ({"member_id": "m1", "instance_id": "i"}, ErrorCode.unknown_member_id),
    ],
)
def test_a_stable_group_refuses_and_stays_stable(driver, changes, error):
    driver.stable()
    assert driver.join(**changes).error is error
    assert driver.is_in(State.STABLE)


def test_a_dead_group_sends_members_to_look_for_another(driver):
    driver.stable()
    driver.dissolve(ErrorCode.not_coordinator)
    assert driver.join().error is ErrorCode.coordinator_not_available
    assert driver.join("m1").error is ErrorCode.coordinator_not_available


def test_a_newcomer_waits_until_all_have_joined_again(driver):
    (first,) = driver.stable()
    newcomer = driver.start_join()
    assert driver.is_in(State.PREPARING)
    assert newcomer in driver.waiting
    assert driver.heartbeat(first.member_id, 1) is ErrorCode.rebalance_in_progress
    again = driver.join(first.member_id)
    assert driver.joined(newcomer).generation == again.generation == 2
    assert driver.joined(newcomer).members == ()
    assert {member.member_id for member in again.members} == {"m1", "m2"}


def test_members_that_do_not_join_within_the_rebalance_timeout_are_out(driver):
    driver.stable(2, session_timeout_ms=600_000)
    newcomer = driver.start_join(session_timeout_ms=600_000)
    driver.advance(59.9)
    assert newcomer in driver.waiting
    driver.advance(0.1)
    joined = driver.joined(newcomer)
    assert joined.leader == joined.member_id
    assert [member.member_id for member in joined.members] == [joined.member_id]


def test_a_silent_static_member_keeps_its_place_through_a_rebalance(driver):
    driver.stable(1, instance_id="i1", session_timeout_ms=600_000)
    newcomer = driver.start_join(session_timeout_ms=600_000)
    driver.advance(60)
    joined = driver.joined(newcomer)
    assert joined.leader == joined.member_id, "the leader is one that joined"
    assert {member.instance_id for member in joined.members} == {"i1", None}


def test_with_silent_static_members_alone_the_join_phase_goes_on_until_their_sessions_end(driver):
    members = [driver.join(instance_id="i1", session_timeout_ms=600_000)]
    driver.start_sync(members[0], {})
    newcomer = driver.join(must_know_id=True)
    driver.start_join(newcomer.member_id)
    driver.leave(Caller(newcomer.member_id))
    assert driver.is_in(State.PREPARING)
    driver.advance(300)
    assert driver.is_in(State.PREPARING)
    driver.advance(300)
    assert driver.is_in(State.EMPTY)


def test_a_new_member_that_waits_too_long_for_its_first_generation_is_out(driver):
    driver.stable(1, instance_id="i1", session_timeout_ms=1_800_000, rebalance_timeout_ms=900_000)
    newcomer = driver.start_join(rebalance_timeout_ms=900_000)
    driver.advance(300)
    assert driver.joined(newcomer).error is ErrorCode.unknown_member_id


def test_a_waiting_member_that_was_in_before_owes_no_heartbeat(driver):
    first, _ = driver.stable(2)
    waiting = driver.start_join(first.member_id)
    driver.advance(9.9)
    assert waiting in driver.waiting
    driver.advance(0.1)
    joined = driver.joined(waiting)
    assert (joined.error, joined.generation) == (ErrorCode.none, 3)


def test_a_join_that_is_asked_again_answers_the_first_one(driver):
    driver.stable()
    first = driver.start_join(must_know_id=False)
    again = driver.start_join("m2")
    assert driver.joined(first).error is ErrorCode.rebalance_in_progress
    assert again in driver.waiting


@pytest.mark.parametrize(
    ("leads", "changed", "rebalances"),
    [(True, False, True), (True, True, True), (False, True, True), (False, False, False)],
)
def test_a_member_that_joins_a_stable_group_again(driver, leads, changed, rebalances):
    members = driver.stable(2)
    member = next(each for each in members if (each.leader == each.member_id) is leads)
    protocols = (Protocol("range", subscription("other")),) if changed else (RANGE,)
    ticket = driver.start_join(member.member_id, protocols=protocols)
    assert (driver.state is State.PREPARING) is rebalances
    assert (ticket in driver.waiting) is rebalances
    if not rebalances:
        assert driver.joined(ticket).generation == member.generation


def test_a_member_that_missed_its_answer_gets_it_again_before_the_sync(driver):
    first = driver.join()
    again = driver.join(first.member_id)
    assert again == first
    assert driver.is_in(State.COMPLETING)


def test_a_changed_member_starts_a_rebalance_before_the_sync(driver):
    first = driver.join()
    again = driver.join(first.member_id, protocols=(Protocol("range", subscription("x")),))
    assert again.generation == first.generation + 1


def test_each_member_votes_for_its_first_protocol_that_all_support(driver):
    driver.join(protocols=(RANGE, STICKY))
    tickets = [
        driver.start_join(protocols=(STICKY, RANGE)),
        driver.start_join(protocols=(Protocol("own", b""), STICKY, RANGE)),
        driver.start_join("m1", protocols=(RANGE, STICKY)),
    ]
    assert {driver.joined(ticket).protocol_name for ticket in tickets} == {"cooperative-sticky"}


def test_a_member_is_described_to_the_leader_by_the_chosen_protocol(driver):
    own = Protocol("range", subscription("a", "b"))
    joined = driver.join(protocols=(Protocol("x", b"x"), own), instance_id="i")
    assert joined.protocol_name == "x"
    assert joined.members == (("m1", "i", b"x"),)


def test_a_rolling_change_of_protocols_ends_with_the_common_one(driver):
    driver.stable(2, protocols=(RANGE,))
    upgraded = driver.start_join("m1", protocols=(STICKY, RANGE))
    other = driver.start_join("m2", protocols=(RANGE,))
    assert driver.joined(upgraded).protocol_name == driver.joined(other).protocol_name == "range"
    other = driver.start_join("m2", protocols=(STICKY, RANGE))
    driver.join("m1", protocols=(STICKY, RANGE))
    assert driver.joined(other).protocol_name == "cooperative-sticky"


class TestInitialDelay:
    """`group.initial.rebalance.delay.ms`"""

    @pytest.fixture
    def driver(self) -> GroupDriver:
        return GroupDriver(GroupLimits(initial_rebalance_delay_ms=3000))

    def test_an_empty_group_waits_for_more_members(self, driver):
        first = driver.start_join()
        driver.advance(2.9)
        assert first in driver.waiting
        driver.advance(0.1)
        assert driver.joined(first).generation == 1

    def test_a_newcomer_puts_the_first_generation_off_once_more(self, driver):
        first = driver.start_join()
        driver.advance(2)
        second = driver.start_join()
        driver.advance(3.9)
        assert {first, second} <= driver.waiting
        driver.advance(0.1)
        assert driver.joined(first).generation == driver.joined(second).generation == 1

    def test_newcomers_put_it_off_no_longer_than_the_rebalance_timeout(self, driver):
        tickets = [driver.start_join(rebalance_timeout_ms=10_000)]
        for _ in range(9):
            driver.advance(1)
            tickets.append(driver.start_join(rebalance_timeout_ms=10_000))
        driver.advance(1)
        assert {driver.joined(ticket).generation for ticket in tickets} == {1}

    def test_only_a_group_that_was_empty_waits(self, driver):
        first = driver.start_join()
        driver.advance(3)
        second = driver.start_join()
        driver.start_join(driver.joined(first).member_id)
        assert driver.joined(second).generation == 2


class TestMaxSize:
    """`group.max.size`"""

    @pytest.fixture
    def driver(self) -> GroupDriver:
        return GroupDriver(GroupLimits(max_size=2))

    def test_a_full_stable_group_takes_nobody_but_its_members(self, driver):
        first, _ = driver.stable(2)
        assert driver.join().error is ErrorCode.group_max_size_reached
        assert driver.join(must_know_id=True).error is ErrorCode.group_max_size_reached
        assert driver.is_in(State.STABLE)
        assert driver.start_join(first.member_id) in driver.asked
        assert driver.is_in(State.PREPARING)

    def test_while_it_gathers_the_last_to_come_is_turned_away(self, driver):
        first, second = driver.stable(2)
        driver.leave(Caller(second.member_id))
        third = driver.start_join()
        again = driver.start_join(first.member_id)
        assert driver.joined(third).generation == driver.joined(again).generation
        assert driver.join().error is ErrorCode.group_max_size_reached

    def test_a_static_member_that_comes_back_has_its_place(self, driver):
        driver.stable(1, instance_id="i1")
        driver.start_join(instance_id="i2")
        driver.start_join("m1", instance_id="i1")
        assert driver.start_join(instance_id="i1") in driver.waiting
