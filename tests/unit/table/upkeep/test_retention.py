"""Rows that leave by age."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestream_spark.table.delta import mirror
from lakestream_spark.table.delta_changes import live_files
from lakestream_spark.table.delta_files import MirroredFile
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY, ENDS_PROPERTY
from lakestream_spark.table.upkeep.retention import beyond_size, remove, too_old
from tests.support.delta_tables import GrowingTable, in_delta, in_iceberg
from tests.support.embedded import catalog_spec


def file(partition: int, first: int, last: int, newest_ms: int | None) -> MirroredFile:
    return MirroredFile(
        path=f"{partition}/{first}-{last}",
        partition=partition,
        size=1,
        rows=1,
        offsets=(first, last),
        micros=None if newest_ms is None else (0, newest_ms * 1000),
        nulls={},
    )


def test_the_beginning_of_each_partition_goes_up_to_the_first_file_that_stays():
    files = [file(0, 0, 9, 10), file(0, 10, 19, 50), file(0, 20, 29, 10), file(1, 0, 4, 10)]
    leaving = too_old(files, before_ms=20)
    assert leaving.paths == {"0/0-9", "1/0-4"}
    assert leaving.starts == {0: 10, 1: 5}


def test_a_file_goes_when_its_newest_record_is_older():
    assert too_old([file(0, 0, 9, 20)], before_ms=20).paths == frozenset()
    assert too_old([file(0, 0, 9, 19)], before_ms=20).paths == {"0/0-9"}


def test_a_file_without_times_stays_and_so_does_what_follows():
    assert too_old([file(0, 0, 9, None), file(0, 10, 19, 1)], before_ms=20).paths == frozenset()


def test_a_file_that_overlaps_one_that_stays_stays_too():
    files = [file(0, 0, 4, 10), file(0, 5, 15, 10), file(0, 10, 19, 50)]
    assert too_old(files, before_ms=20).paths == {"0/0-4"}


def test_a_log_keeps_at_least_so_many_bytes_of_each_partition():
    files = [file(0, 0, 9, 1), file(0, 10, 19, 1), file(0, 20, 29, 1), file(1, 5, 9, 1)]
    assert beyond_size(files, 1) == {0: 20}
    assert beyond_size(files, 2) == {0: 10}
    assert beyond_size(files, 3) == {}
    assert beyond_size([*files, file(0, 15, 25, 1)], 2) == {0: 15}


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[GrowingTable]:
    growing = GrowingTable.new(catalog_spec(tmp_path))
    yield growing
    growing.close()


def test_old_files_leave_both_formats_and_the_ends_stay(orders):
    for _ in range(3):
        orders.append(0, 1)
    mirror(orders.table, orders.topic_id)
    table = orders.table
    # A record's time is its offset, in milliseconds.
    leaving = too_old(live_files(table, table.current_snapshot()).values(), before_ms=4)
    assert leaving.starts == {0: 4, 1: 4}
    assert remove(table, leaving.paths)
    assert in_iceberg(orders.table) == [(0, 4), (0, 5), (1, 4), (1, 5)]
    mirror(orders.table, orders.topic_id)
    assert in_delta(orders.log) == in_iceberg(orders.table)
    summary = orders.table.current_snapshot().summary.additional_properties
    assert summary[ENDS_PROPERTY] == orders.table.properties[ENDS_PROPERTY] == "6,6"
    assert COMMIT_ID_PROPERTY not in summary
    orders.append(0)
    assert in_iceberg(orders.table)[-3:] == [(0, 7), (1, 4), (1, 5)]


def test_removal_that_meets_a_commit_changes_nothing(orders):
    orders.append()
    stale = orders.table
    paths = frozenset(live_files(stale, stale.current_snapshot()))
    orders.append()
    assert not remove(stale, paths)
    assert len(in_iceberg(orders.table)) == 4
