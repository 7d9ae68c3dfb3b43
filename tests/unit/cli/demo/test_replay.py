"""A replay goes over what was erased, and stops at what this run sent and did not get back."""

import pytest

from lakestream_spark.cli.demo.replay import Course, Range
from lakestream_spark.cli.demo.traffic import Place
from lakestream_spark.core.errors import Corrupt

ORDERS = ("orders", 0)


def at(offset: int, partition: int = 0) -> Place:
    return Place("orders", partition, offset)


def sent(*offsets: int) -> dict[Place, bytes]:
    return {at(offset): b"%d" % offset for offset in offsets}


def course(*own: int) -> Course:
    """Over [5, 10) of one partition, of which this run sent those offsets."""
    return Course({ORDERS: Range(5, 10)}, sent(*own))


def take(course: Course, *offsets: int) -> None:
    for offset in offsets:
        course.take(at(offset), b"%d" % offset)


def test_every_record_counts_and_those_of_this_run_are_compared():
    found = course(8, 9)
    take(found, *range(5, 10))
    assert found.is_over
    assert (found.records, found.compared) == (5, 2)


def test_goes_over_holes_at_the_beginning_and_in_the_middle():
    found = course(9)
    take(found, 6, 9)
    assert found.is_over
    assert (found.records, found.compared) == (2, 1)


def test_a_record_behind_the_end_ends_a_partition_whose_last_offsets_were_erased():
    found = course(7)
    take(found, 5, 6, 7, 12)
    assert found.is_over
    assert found.records == 3


@pytest.mark.parametrize("end", [10, 11])
def test_the_end_of_a_partition_ends_it_when_its_last_offsets_were_erased(end: int):
    found = course(7)
    take(found, 5, 6, 7)
    found.reach(at(end))
    assert found.is_over


def test_an_end_below_the_table_end_does_not_end_a_partition():
    found = course()
    take(found, 5)
    found.reach(at(8))
    assert not found.is_over


def test_other_partitions_and_what_lies_behind_do_not_count():
    found = course()
    found.take(at(0, partition=1), b"other")
    found.reach(at(3, partition=1))
    assert found.records == 0
    assert not found.is_over


@pytest.mark.parametrize("missing", [5, 7, 9])
def test_a_record_of_this_run_that_does_not_come_is_corrupt(missing: int):
    found = course(missing)
    with pytest.raises(Corrupt, match=rf"sent did not come back .*offset={missing}\)"):
        take(found, *(offset for offset in range(5, 11) if offset != missing))


def test_a_record_of_this_run_that_is_missing_at_the_end_is_corrupt():
    found = course(9)
    take(found, 5, 6, 7, 8)
    with pytest.raises(Corrupt, match="sent did not come back"):
        found.reach(at(10))


@pytest.mark.parametrize("again", [5, 6])
def test_a_record_that_comes_twice_or_late_is_corrupt(again: int):
    found = course()
    take(found, 5, 6)
    with pytest.raises(Corrupt, match="left its order"):
        take(found, again)


def test_a_record_of_this_run_that_changed_is_corrupt():
    with pytest.raises(Corrupt, match="did not come back as it was sent"):
        course(5).take(at(5), b"other")
