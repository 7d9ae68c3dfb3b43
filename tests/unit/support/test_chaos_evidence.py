"""What the journals of a run become: a client's own habit is no fault of the log."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.chaos_evidence import gather
from tests.support.chaos_journal import Journal

PLACE = "orders-0"
VALUES = [f"producer.anna.1/{PLACE}/{n:07d}" for n in range(6)]
Row = tuple[int, str]


def row(offset: int) -> Row:
    return offset, VALUES[offset]


def found(folder: Path, *lines: tuple[Any, ...]) -> list[str]:
    """The faults of a member with this journal, all of whose records were sent."""
    producer = Journal(folder / "producer.anna.1")
    producer.write("send", VALUES)
    member = Journal(folder / "steady.0.1")
    for line in lines:
        member.write(*line)
    evidence = gather(folder)
    return [*evidence.errors, *evidence.anomalies({PLACE: list(enumerate(VALUES))})]


BEFORE = (("assign", [PLACE]), ("rows", PLACE, [row(0), row(1), row(2)]))


def test_the_record_before_a_rebalance_may_come_once_more(tmp_path: Path) -> None:
    again = ("rows", PLACE, [row(2), row(3)])
    assert found(tmp_path, *BEFORE, ("assign", []), again) == []


KEPT_BEFORE_ANYTHING_CAME: tuple[tuple[Any, ...], ...] = (
    ("assign", [PLACE]),
    ("assign", []),
    ("rows", PLACE, [row(0), row(1), row(2)]),
    ("assign", []),
)


def test_what_was_paused_before_anything_came_may_begin_once_more(tmp_path: Path) -> None:
    again = (("rows", PLACE, [row(0), row(1)]), ("rows", PLACE, [row(2), row(3)]))
    assert found(tmp_path, *KEPT_BEFORE_ANYTHING_CAME, *again) == []


@pytest.mark.parametrize(
    "rows",
    [[row(1)], [row(0), (1, VALUES[5])], [row(0), row(2)], [row(0), row(1), row(2), row(0)]],
    ids=["in its middle", "another at its offset", "a gap", "twice"],
)
def test_what_begins_once_more_is_the_same(tmp_path: Path, rows: list[Row]) -> None:
    assert found(tmp_path, *KEPT_BEFORE_ANYTHING_CAME, ("rows", PLACE, rows))


def test_a_client_that_a_broker_sent_back_is_a_fault(tmp_path: Path) -> None:
    assert found(tmp_path, *BEFORE, ("reset", "offset reset: Broker: Offset out of range"))


@pytest.mark.parametrize(
    "rows",
    [[row(1), row(2)], [row(2), row(2)], [row(4)], [(2, VALUES[5])]],
    ids=["an older one", "twice", "a gap", "another at its offset"],
)
def test_anything_else_at_a_rebalance_is_a_fault(tmp_path: Path, rows: list[Row]) -> None:
    assert found(tmp_path, *BEFORE, ("assign", []), ("rows", PLACE, rows))


def test_a_record_that_comes_again_without_a_rebalance_is_a_fault(tmp_path: Path) -> None:
    assert found(tmp_path, *BEFORE, ("rows", PLACE, [row(2)]))
