"""Each anomaly is caught by its name; a checker that never fails proves nothing."""

import pytest

from tests.support.checker import Ack, History, Kind, Poll, Row, Send, anomalies

P = "orders-0"


def healthy() -> tuple[History, dict[str, list[Row]]]:
    """Two producers; the last batch of the second one was never answered, and is not there."""
    history = History(
        sends=[
            Send(P, 1, 0, ("a", "b")),
            Send(P, 2, 0, ("c",)),
            Send(P, 1, 2, ("d",)),
            Send(P, 2, 1, ("lost reply",)),
        ],
        acks=[Ack(P, 1, 0, 0, ("a", "b")), Ack(P, 2, 0, 2, ("c",)), Ack(P, 1, 2, 3, ("d",))],
        polls=[Poll(P, [(1, "b"), (2, "c")])],
    )
    return history, {P: [(0, "a"), (1, "b"), (2, "c"), (3, "d")]}


def kinds(history: History, final: dict[str, list[Row]]) -> set[Kind]:
    return {anomaly.kind for anomaly in anomalies(history, final)}


def test_a_healthy_history_has_no_anomalies():
    history, final = healthy()
    assert anomalies(history, final) == []


def test_an_indeterminate_send_may_also_be_there():
    history, final = healthy()
    final[P].append((4, "lost reply"))
    assert anomalies(history, final) == []


def test_the_same_answer_twice_is_lawful():
    history, final = healthy()
    history.acks.append(history.acks[0])
    assert anomalies(history, final) == []


def test_an_acknowledged_record_below_the_end_that_is_not_there_is_lost():
    history, final = healthy()
    final[P][1] = (1, "lost reply")
    assert Kind.LOST in kinds(history, final)


def test_an_acknowledged_record_at_the_end_that_is_not_there_is_unseen():
    history, final = healthy()
    final[P].pop()
    assert kinds(history, final) == {Kind.UNSEEN}


def test_a_partition_that_nobody_could_read_is_unseen():
    history, _ = healthy()
    history.polls.clear()
    assert kinds(history, {}) == {Kind.UNSEEN}


def test_a_record_that_is_there_twice_is_a_duplicate():
    history, final = healthy()
    final[P] += [(4, "lost reply"), (5, "lost reply")]
    assert kinds(history, final) == {Kind.DUPLICATE}


def test_a_record_elsewhere_than_its_answer_said_is_inconsistent():
    history, final = healthy()
    history.acks[1] = Ack(P, 2, 0, 5, ("c",))
    assert kinds(history, final) == {Kind.INCONSISTENT}


def test_two_answers_for_one_offset_are_inconsistent():
    history, final = healthy()
    history.acks.append(Ack(P, 2, 1, 3, ("lost reply",)))
    assert Kind.INCONSISTENT in kinds(history, final)


def test_an_offset_that_showed_another_value_before_is_inconsistent():
    history, final = healthy()
    history.polls.append(Poll(P, [(3, "lost reply")]))
    assert kinds(history, final) == {Kind.INCONSISTENT}


@pytest.mark.parametrize("seen_by", ["poll", "final read"])
def test_a_record_that_nobody_sent_is_a_phantom(seen_by: str):
    history, final = healthy()
    if seen_by == "poll":
        history.polls.append(Poll(P, [(4, "ghost")]))
    else:
        final[P].append((4, "ghost"))
    assert kinds(history, final) == {Kind.PHANTOM}


def test_a_record_of_another_partition_is_a_phantom():
    history, final = healthy()
    final["orders-1"] = [(0, "lost reply")]
    assert kinds(history, final) == {Kind.PHANTOM}


def test_batches_of_one_producer_out_of_their_order_are_non_monotonic():
    history, final = healthy()
    history.acks.clear()
    history.polls.clear()
    final[P] = [(0, "d"), (1, "a"), (2, "b"), (3, "c")]
    assert kinds(history, final) == {Kind.NON_MONOTONIC_SEND}


def test_records_of_one_batch_out_of_their_order_are_non_monotonic():
    history, final = healthy()
    history.acks.clear()
    history.polls.clear()
    final[P] = [(0, "b"), (1, "a"), (2, "c"), (3, "d")]
    assert kinds(history, final) == {Kind.NON_MONOTONIC_SEND}


def test_a_read_that_goes_back_is_non_monotonic():
    history, final = healthy()
    history.polls.append(Poll(P, [(1, "b"), (2, "c"), (1, "b")]))
    assert kinds(history, final) == {Kind.NON_MONOTONIC_POLL}


@pytest.mark.parametrize("reader", ["poll", "final read", "from the start"])
def test_a_read_that_leaves_an_offset_out_is_a_skip(reader: str):
    history, final = healthy()
    history.acks.clear()
    if reader == "poll":
        history.polls.append(Poll(P, [(1, "b"), (3, "d")]))
    elif reader == "final read":
        del final[P][2]
    else:
        del final[P][0]
    assert kinds(history, final) == {Kind.SKIP}
