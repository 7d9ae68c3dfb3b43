from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.objectstore.ranges import Run, plan_ranges

DATA = bytes(range(256)) * 4

ranges = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)).map(
        lambda r: (r[0], min(r[1], 1024 - r[0]))
    ),
    max_size=20,
)


@given(ranges, st.integers(0, 100))
def test_cuts_every_range_out_of_the_runs(ranges: list[tuple[int, int]], max_gap: int):
    plan = plan_ranges([r[0] for r in ranges], [r[1] for r in ranges], max_gap=max_gap)
    found = plan.cut([memoryview(DATA)[run.start : run.end] for run in plan.runs])
    assert found == [DATA[start : start + length] for start, length in ranges]


@given(ranges, st.integers(0, 100))
def test_runs_are_in_order_and_further_apart_than_the_gap(
    ranges: list[tuple[int, int]], max_gap: int
):
    runs = plan_ranges([r[0] for r in ranges], [r[1] for r in ranges], max_gap=max_gap).runs
    assert all(run.start < run.end for run in runs)
    assert all(b.start - a.end > max_gap for a, b in pairwise(runs))


def test_neighbours_are_one_run_and_strangers_are_not():
    plan = plan_ranges([2_000_000, 0, 110], [10, 100, 90])
    assert plan.runs == (Run(0, 200), Run(2_000_000, 2_000_010))
