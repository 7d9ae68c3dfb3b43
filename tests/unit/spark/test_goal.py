"""Where a drain ends."""

from uuid import UUID

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.backlog import PartitionBacklog, TopicBacklog
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.spark.goal import Goal

ORDERS, OTHER = TopicId(UUID(int=1)), TopicId(UUID(int=2))


def backlog(*ranges: tuple[int, int, int], wanted: int | None = None) -> TopicBacklog:
    return TopicBacklog(tuple(PartitionBacklog(PlannedRange(*each), 0, wanted) for each in ranges))


def test_what_comes_after_the_first_look_is_beyond_the_goal() -> None:
    goal = Goal()
    first = {ORDERS: backlog((0, 0, 10), (1, 0, 5))}
    assert goal.within(first) == first
    assert goal.within({ORDERS: backlog((0, 4, 20), (1, 5, 9), (2, 0, 3))}) == {
        ORDERS: backlog((0, 4, 10))
    }
    assert goal.within({ORDERS: backlog((0, 10, 30)), OTHER: backlog((0, 0, 3))}) == {}


def test_a_lake_without_a_backlog_is_drained_at_once_and_for_good() -> None:
    goal = Goal()
    assert goal.within({}) == {}
    assert goal.within({ORDERS: backlog((0, 0, 10))}) == {}


def test_a_flush_that_somebody_waits_for_is_a_part_of_the_goal() -> None:
    goal = Goal()
    assert goal.within({}) == {}
    wanted = {ORDERS: backlog((0, 0, 10), wanted=10)}
    assert goal.within(wanted) == wanted
    assert goal.within({ORDERS: backlog((0, 8, 30))}) == {ORDERS: backlog((0, 8, 10))}


def test_a_flush_moves_the_goal_to_where_it_was_asked_for_however_long_it_takes() -> None:
    goal = Goal()
    goal.within({ORDERS: backlog((0, 0, 10), (1, 0, 5))})
    for end in (12, 20, 30):
        mine = backlog((0, 0, end), wanted=12).partitions
        others = backlog((1, 0, end)).partitions
        (left,) = goal.within({ORDERS: TopicBacklog(mine + others)}).values()
        assert [planned.next for planned in left.ranges] == [12, 5]
    assert goal.within({ORDERS: backlog((0, 12, 30), wanted=12)}) == {}
