"""When a topic is due, and how a batch's bytes are shared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.metadata.backlog import PartitionBacklog, TopicBacklog
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.spark.due import MIB, CompactPolicy, is_due, is_enough, share_out

POLICY = CompactPolicy(file_bytes=128 * MIB, batch_bytes=512 * MIB)


@pytest.mark.parametrize(
    ("age_ms", "lag_ms", "head_start_ms", "flush", "enough", "expected"),
    [
        (0, 60_000, 1000, False, False, False),
        (58_999, 60_000, 1000, False, False, False),
        (59_000, 60_000, 1000, False, False, True),
        (90_000, 60_000, 1000, False, False, True),
        (999, 2_000, 30_000, False, False, False),
        (1_000, 2_000, 30_000, False, False, True),
        (0, 60_000, 1000, True, False, True),
        (0, 60_000, 1000, False, True, True),
    ],
)
def test_a_topic_is_due_at_its_lag_target_less_the_time_a_batch_takes(
    age_ms, lag_ms, head_start_ms, flush, enough, expected
):
    wanted_end = 1 if flush else None
    backlog = TopicBacklog((PartitionBacklog(PlannedRange(0, 0, 1), 1_000_000, wanted_end),))
    assert (
        is_due(
            backlog,
            lag_ms=lag_ms,
            now_ms=1_000_000 + age_ms,
            head_start_ms=head_start_ms,
            enough=enough,
        )
        is expected
    )


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], False),
        ([127 * MIB], False),
        ([128 * MIB], True),
        ([1, 128 * MIB, 1], True),
        ([2 * MIB] * 100, False),
        ([5 * MIB] * 102, False),
        ([6 * MIB] * 100, True),
        ([64 * MIB] * 7, False),
        ([64 * MIB] * 8, True),
    ],
)
def test_bytes_are_enough_when_one_partition_fills_a_file_or_all_fill_a_batch(sizes, expected):
    assert is_enough(sizes, POLICY) is expected


def test_small_ones_get_all_they_want_and_the_rest_is_even():
    assert share_out({"a": 10, "b": 1000, "c": 1000}, 210) == {"a": 10, "b": 100, "c": 100}
    assert share_out({"a": 10, "b": 20}, 1000) == {"a": 10, "b": 20}
    assert share_out({}, 5) == {}


@given(st.dictionaries(st.integers(), st.integers(0, 10**9), max_size=50), st.integers(0, 10**9))
def test_shares_never_pass_the_budget_nor_the_wish_and_leave_nothing_unused(wanted, budget):
    shares = share_out(wanted, budget)
    assert all(0 <= shares[key] <= wanted[key] for key in wanted)
    left = min(budget, sum(wanted.values())) - sum(shares.values())
    assert 0 <= left < max(1, len(wanted))
