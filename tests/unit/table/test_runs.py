import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.table.runs import Run, first_outside, first_repeated, joined, runs_of

OFFSETS = st.lists(st.integers(0, 40), max_size=30)


def spread(runs: list[Run]) -> list[int]:
    return [offset for run in runs for offset in range(*run)]


def in_runs(offsets: list[int]) -> list[Run]:
    return runs_of(pa.array(offsets, pa.int64()))


@given(offsets=OFFSETS)
def test_runs_hold_every_offset_as_often_as_it_occurs(offsets: list[int]) -> None:
    assert sorted(spread(in_runs(offsets))) == sorted(offsets)


def test_consecutive_offsets_in_any_order_are_one_run() -> None:
    assert in_runs([4, 2, 3]) == [Run(2, 5)]
    assert in_runs([7, 2, 3]) == [Run(2, 4), Run(7, 8)]


@given(offsets=OFFSETS)
def test_smallest_offset_that_is_there_twice_is_found(offsets: list[int]) -> None:
    repeated = [offset for offset in offsets if offsets.count(offset) > 1]
    assert first_repeated(in_runs(offsets)) == min(repeated, default=None)


@given(offsets=OFFSETS, allowed=OFFSETS)
def test_smallest_offset_outside_those_allowed_is_found(
    offsets: list[int], allowed: list[int]
) -> None:
    outside = set(offsets) - set(allowed)
    assert first_outside(in_runs(offsets), in_runs(allowed)) == min(outside, default=None)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], []),
        ([Run(5, 7), Run(0, 5)], [Run(0, 7)]),
        ([Run(0, 9), Run(2, 3), Run(11, 12)], [Run(0, 9), Run(11, 12)]),
    ],
)
def test_touching_and_overlapping_runs_are_joined(runs: list[Run], expected: list[Run]) -> None:
    assert list(joined(runs)) == expected
