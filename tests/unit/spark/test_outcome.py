"""What can be committed of a topic's outcomes."""

from dataclasses import replace
from uuid import UUID

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.tables import PlannedRange, Quarantined
from lakestream_spark.spark.outcome import Kind, Outcome, movable
from lakestream_spark.table.files import DataFile, FileStatistics

TOPIC = TopicId(UUID(int=7))
NO_STATISTICS = FileStatistics(
    column_sizes={1: 10},
    value_counts={1: 2},
    null_value_counts={},
    lower_bounds={2: "00"},
    upper_bounds={2: "ff"},
    split_offsets=(4,),
)


def file(partition: int, first: int, following: int) -> DataFile:
    return DataFile(
        path=f"{partition}/{first}",
        partition=partition,
        first=first,
        next=following,
        rows=following - first,
        size=100,
        statistics=NO_STATISTICS,
    )


def written(partition: int, first: int, following: int, **more: object) -> Outcome:
    fields = {"file": file(partition, first, following), "wal_bytes": 50, **more}
    return outcome(partition, first, following, Kind.WRITTEN, **fields)


def outcome(partition: int, first: int, following: int, kind: Kind, **more: object) -> Outcome:
    planned = PlannedRange(partition, first, following)
    return Outcome(topic_id=TOPIC, plan=3, range=planned, kind=kind, **more)  # type: ignore[arg-type]


def test_an_outcome_crosses_the_border_to_the_driver_unchanged():
    aside = Quarantined(0, 1, 2, "file:///q", "bad")
    for sent in (
        written(0, 0, 5, quarantined=(aside,)),
        outcome(1, 0, 5, Kind.CORRUPT, sentence="the CRC does not match"),
    ):
        (row,) = sent.to_arrow().to_pylist()
        assert Outcome.of(row) == sent


def test_consecutive_slices_of_a_partition_become_one_range_with_all_their_files():
    found = movable([written(0, 5, 9), written(0, 0, 5), written(1, 0, 2)], {0: 0, 1: 0})
    assert found.ranges == (PlannedRange(0, 0, 9), PlannedRange(1, 0, 2))
    assert [each.path for each in found.files] == ["0/0", "0/5", "1/0"]
    assert found.stopped == ()


def test_what_follows_a_failed_slice_of_a_partition_waits_and_other_partitions_go_on():
    failed = outcome(0, 5, 9, Kind.FAILED, sentence="no answer")
    found = movable([written(0, 0, 5), failed, written(0, 9, 12), written(1, 0, 2)], {0: 0, 1: 0})
    assert found.ranges == (PlannedRange(0, 0, 5), PlannedRange(1, 0, 2))
    assert found.stopped == (failed,)


def test_slices_that_do_not_begin_at_the_table_end_are_left_alone():
    found = movable([written(0, 5, 9), written(1, 0, 4)], {0: 3, 1: 4})
    assert found == ((), (), (), ())


def test_a_segment_that_is_gone_is_no_trouble_when_the_table_has_its_range():
    gone = outcome(0, 0, 5, Kind.GONE)
    assert movable([gone], {0: 5}).stopped == ()
    assert movable([gone], {0: 0}).stopped == (gone,)


def test_a_slice_whose_beginning_the_table_has_by_now_is_old_and_nothing_is_wrong():
    gone = outcome(0, 0, 5, Kind.GONE)
    assert movable([gone, written(0, 5, 9)], {0: 3}) == ((), (), (), ())
    assert movable([gone, written(0, 5, 9)], {0: 5}).ranges == (PlannedRange(0, 5, 9),)


def test_a_slice_without_rows_moves_the_end_without_a_file():
    aside = Quarantined(0, 0, 4, "file:///q", "bad")
    found = movable([written(0, 0, 4, file=None, quarantined=(aside,))], {0: 0})
    assert (found.ranges, found.files, found.quarantined) == (
        (PlannedRange(0, 0, 4),),
        (),
        (aside,),
    )


@pytest.mark.parametrize(
    ("rows", "aside"),
    [
        (4, ()),
        (0, ()),
        (5, ((3, 5),)),
        (0, ((0, 4),)),
    ],
)
def test_a_slice_whose_rows_are_not_its_offsets_is_never_committed(rows, aside):
    """Else the WAL would be forgotten, and with it the only other copy."""
    made = replace(file(0, 0, 5), rows=rows) if rows else None
    quarantined = tuple(
        Quarantined(0, first, following, "file:///q", "bad") for first, following in aside
    )
    found = movable([written(0, 0, 5, file=made, quarantined=quarantined)], {0: 0})
    assert found.ranges == ()
    (stopped,) = found.stopped
    assert stopped.kind is Kind.CORRUPT
    assert "neither rows nor set aside" in stopped.sentence


def test_a_batch_set_aside_may_reach_beyond_its_slice():
    aside = Quarantined(0, 3, 9, "file:///q", "bad")
    made = replace(file(0, 0, 5), rows=3)
    assert movable([written(0, 0, 5, file=made, quarantined=(aside,))], {0: 0}).stopped == ()
