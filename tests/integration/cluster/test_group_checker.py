"""Each anomaly of a group, and of what its journals hold, is caught by its name."""

from pathlib import Path

import pytest

from tests.support.chaos_evidence import gather
from tests.support.chaos_groups import Claim, Commit, GroupHistory, GroupKind, group_anomalies
from tests.support.chaos_journal import Journal, Value
from tests.support.checker import Kind, Row

P = "orders-0"
ENDS = {P: 4}


def rows(*offsets: int) -> list[Row]:
    return [(offset, f"value {offset}") for offset in offsets]


def healthy() -> GroupHistory:
    """Two owners; the first was killed after a commit that it heard of and one that it did not."""
    history = GroupHistory(
        claims=[
            Claim(partition=P, assigned_at=1.0, first_row_at=2.0, rows=rows(0, 1, 2)),
            Claim(partition=P, assigned_at=5.0, first_row_at=6.0, rows=rows(1, 2, 3)),
            Claim(partition=P, assigned_at=9.0),
        ],
        stored={P: 4},
    )
    history.asked[P] = [Commit(3.0, 1), Commit(4.0, 3), Commit(7.0, 4)]
    history.confirmed[P] = [Commit(3.5, 1), Commit(8.0, 4)]
    return history


def kinds(history: GroupHistory) -> set[GroupKind]:
    return {anomaly.kind for anomaly in group_anomalies(history, ENDS)}


def test_a_healthy_group_has_no_anomalies():
    assert group_anomalies(healthy(), ENDS) == []


def test_an_owner_may_also_begin_at_a_commit_that_nobody_heard_of():
    history = healthy()
    history.claims[1].rows = rows(3)
    assert group_anomalies(history, ENDS) == []


def test_a_record_that_no_member_got_is_undelivered():
    history = healthy()
    history.claims[1].rows = rows(1, 2)
    history.stored[P] = 3
    assert kinds(history) == {GroupKind.UNDELIVERED, GroupKind.BEHIND}


def test_a_group_that_did_not_commit_its_last_record_is_behind():
    history = healthy()
    history.stored[P] = 3
    assert kinds(history) == {GroupKind.BEHIND}


def test_a_group_that_got_nothing_at_all_is_caught():
    assert kinds(GroupHistory()) == {GroupKind.UNDELIVERED, GroupKind.BEHIND}


def test_a_commit_above_what_was_polled_is_caught():
    history = healthy()
    history.stored[P] = 5
    assert kinds(history) == {GroupKind.UNPOLLED}


def test_an_owner_that_begins_below_a_confirmed_commit_finds_it_forgotten():
    history = healthy()
    history.claims[1].rows = rows(0, 1, 2, 3)
    assert kinds(history) == {GroupKind.FORGOTTEN}


def test_an_owner_that_begins_above_every_commit_is_ahead():
    history = healthy()
    history.asked[P] = [Commit(3.0, 1), Commit(7.0, 4)]
    history.claims[1].rows = rows(2, 3)
    assert kinds(history) == {GroupKind.AHEAD}


class Recorded:
    """Journals as clients write them: three records, a watcher, a member with two claims."""

    def __init__(self, folder: Path) -> None:
        self.values = [str(Value("anna", P, number)) for number in range(3)]
        self.final = dict(enumerate(self.values))
        self._folder = folder

    def write(self, *, member_after_rebalance: list[int]) -> None:
        producer = Journal(self._folder / "producer.anna.1")
        producer.write("send", self.values)
        producer.write("ack", [(value, P, n) for n, value in enumerate(self.values)])
        producer.write("resent", 2)
        Journal(self._folder / "watcher.only.1").write("rows", P, self.rows(0, 1, 2))
        member = Journal(self._folder / "eager.0.1")
        member.write("assign", [P])
        member.write("rows", P, self.rows(0, 1))
        member.write("assign", [P])
        member.write("rows", P, self.rows(*member_after_rebalance))

    def rows(self, *offsets: int) -> list[Row]:
        return [(offset, self.values[offset]) for offset in offsets]

    def found(self) -> list[str]:
        return gather(self._folder).anomalies({P: sorted(self.final.items())})


def test_journals_of_a_sound_run_have_no_anomaly_and_rebalances_may_rewind(tmp_path: Path):
    recorded = Recorded(tmp_path)
    recorded.write(member_after_rebalance=[0, 1, 2])
    assert recorded.found() == []
    evidence = gather(tmp_path)
    assert evidence.counts == {"acknowledged": 3, "resent": 2, "assignments": 2, "delivered": 5}
    assert evidence.worst_lag_s > 0


@pytest.mark.parametrize(
    ("offsets", "kind"), [([0, 2], Kind.SKIP), ([1, 0], Kind.NON_MONOTONIC_POLL)]
)
def test_a_member_that_skips_or_rewinds_within_one_assignment_is_caught(
    tmp_path: Path, offsets: list[int], kind: Kind
):
    recorded = Recorded(tmp_path)
    recorded.write(member_after_rebalance=offsets)
    (anomaly,) = recorded.found()
    assert kind.name in anomaly


@pytest.mark.parametrize(
    ("final", "kind"),
    [
        ({0: 0, 1: 1}, Kind.UNSEEN),
        ({0: 0, 1: 2, 2: 1}, Kind.NON_MONOTONIC_SEND),
        ({0: 0, 1: 1, 2: 2, 3: 0}, Kind.DUPLICATE),
        ({1: 1, 2: 2}, Kind.LOST),
    ],
)
def test_planted_faults_of_the_log_are_caught_from_the_journals(
    tmp_path: Path, final: dict[int, int], kind: Kind
):
    recorded = Recorded(tmp_path)
    recorded.write(member_after_rebalance=[2])
    recorded.final = {offset: recorded.values[number] for offset, number in final.items()}
    assert any(kind.name in anomaly for anomaly in recorded.found())


def test_a_record_in_another_partition_than_its_key_chose_is_a_phantom(tmp_path: Path):
    recorded = Recorded(tmp_path)
    recorded.write(member_after_rebalance=[2])
    strayed = Journal(tmp_path / "producer.bert.1")
    value = str(Value("bert", P, 0))
    strayed.write("send", [value])
    strayed.write("ack", [(value, "orders-1", 0)])
    found = gather(tmp_path).anomalies(
        {P: sorted(recorded.final.items()), "orders-1": [(0, value)]}
    )
    assert any(Kind.PHANTOM.name in anomaly for anomaly in found)


def test_an_error_that_a_producer_or_a_consumer_was_told_for_good_is_kept(tmp_path: Path):
    Journal(tmp_path / "producer.anna.1").write("error", "a value", "out of order")
    Journal(tmp_path / "eager.0.1").write("fatal", "fenced")
    assert gather(tmp_path).errors == ["fenced", "a value: out of order"]


def test_a_torn_last_line_of_a_killed_client_is_left_out(tmp_path: Path):
    recorded = Recorded(tmp_path)
    recorded.write(member_after_rebalance=[2])
    with (tmp_path / "eager.0.1").open("ab") as journal:
        journal.write(b'["rows",12.5,"orders-0",[[7,"an')
    assert recorded.found() == []
