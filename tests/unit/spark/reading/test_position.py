from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.ids import TopicId
from lakestream_spark.spark.reading.position import TopicPosition, at_most, from_json, to_json

A, B = TopicId(UUID(int=1)), TopicId(UUID(int=2))


def position(topic_id=A, **offsets: int):
    own = {int(name.removeprefix("p")): offset for name, offset in offsets.items()}
    return {"orders": TopicPosition(topic_id, own)}


def test_a_position_comes_back_from_the_checkpoint_as_it_was():
    assert from_json(to_json(position(p0=3, p1=0))) == position(p0=3, p1=0)


def test_all_is_taken_when_it_is_little():
    assert at_most(position(p0=3), position(p0=7), 4) == position(p0=7)


def test_much_is_shared_as_what_is_left_is_distributed():
    found = at_most(position(p0=0, p1=100), position(p0=300, p1=200), 40)
    assert found == position(p0=30, p1=110)


def test_a_partition_or_a_topic_that_is_new_begins_at_its_beginning():
    assert at_most(position(p0=9), position(p0=9, p1=5), 2) == position(p0=9, p1=2)
    assert at_most(position(p0=9), position(B, p0=5), 2) == position(B, p0=2)


def test_an_end_before_the_start_is_kept_for_the_planner_to_find():
    assert at_most(position(p0=9, p1=0), position(p0=5, p1=100), 10) == position(p0=5, p1=10)


def test_a_quiet_partition_has_its_turn_beside_a_large_backlog():
    found = at_most(position(p0=0, p1=7), position(p0=100_000, p1=8), 50)
    assert found == position(p0=49, p1=8)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5),
    st.integers(1, 20),
)
def test_steps_come_to_the_end_and_are_not_too_long(ranges, count):
    start = {"orders": TopicPosition(A, {n: first for n, (first, _) in enumerate(ranges)})}
    end = {"orders": TopicPosition(A, {n: first + more for n, (first, more) in enumerate(ranges)})}
    here, steps = start, 0
    while here != end:
        following = at_most(here, end, count)
        before, after = here["orders"].offsets, following["orders"].offsets
        taken = [after[n] - before[n] for n in before]
        assert min(taken) >= 0
        assert 0 < sum(taken) <= count + len(taken)
        assert all(taken[n] > 0 for n in before if end["orders"].offsets[n] > before[n])
        here, steps = following, steps + 1
    assert steps <= sum(more for _, more in ranges)
