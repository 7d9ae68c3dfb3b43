"""Rows by cell: counted and summed alike, however they are cut and ordered."""

from functools import reduce
from itertools import pairwise
from operator import xor
from uuid import uuid4

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.metadata.cells import CELL_OFFSETS, Cell
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.table.append import TableAppend
from lakestream_spark.table.cells import RowSums, committed_cells, sums_of
from lakestream_spark.table.files import DataFile, FileStatistics, FileSum
from lakestream_spark.table.rows import to_arrow
from lakestream_spark.table.runs import Run, without
from tests.support.tables import rows

BORDER = CELL_OFFSETS


def table(*offsets: int) -> pa.Table:
    return to_arrow(0, [rows(offset, [b"%d" % offset])[0] for offset in offsets])


def described(sums: RowSums, first: int, after: int) -> DataFile:
    nothing = FileStatistics(
        column_sizes={},
        value_counts={},
        null_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=(),
    )
    return DataFile(
        path="x",
        partition=0,
        first=first,
        next=after,
        rows=sums.rows,
        size=1,
        statistics=nothing,
        sums=sums.sums(),
        holes=sums.holes(),
    )


@given(st.lists(st.integers(0, 3 * BORDER), min_size=1, max_size=30, unique=True), st.data())
def test_order_and_cuts_do_not_change_the_sums(offsets: list[int], data: st.DataObject) -> None:
    whole = sums_of(table(*offsets))
    shuffled = data.draw(st.permutations(offsets))
    assert sums_of(table(*shuffled)) == whole
    cut = data.draw(st.integers(0, len(offsets)))
    parts = [*sums_of(table(*offsets[:cut])), *sums_of(table(*offsets[cut:]))]
    assert reduce(xor, (each.checksum for each in parts), 0) == reduce(
        xor, (each.checksum for each in whole), 0
    )
    assert {each.cell: each.rows for each in whole} == {
        cell: sum(offset // BORDER == cell for offset in offsets)
        for cell in {offset // BORDER for offset in offsets}
    }


def test_holes_are_what_the_range_has_and_the_rows_have_not() -> None:
    sums = RowSums(PlannedRange(0, 5, 20))
    sums.add(table(7, 8))
    sums.add(table(11, 12, 15))
    assert (sums.rows, sums.holes()) == (5, ((5, 7), (9, 11), (13, 15), (16, 20)))


def test_a_commit_is_cut_on_the_grid_with_its_holes() -> None:
    sums = RowSums(PlannedRange(0, BORDER - 3, BORDER + 2))
    sums.add(table(BORDER - 2, BORDER + 1))
    file = described(sums, BORDER - 3, BORDER + 2)
    assert DataFile.from_json(file.to_json()) == file
    append = TableAppend(
        commit_id=uuid4(), starts={0: BORDER - 3}, ends={0: BORDER + 4}, files=[file]
    )
    low, high = (each.checksum for each in sums.sums())
    assert committed_cells(append) == [
        Cell(0, 0, BORDER - 3, BORDER, 1, low, ((BORDER - 3, BORDER - 2), (BORDER - 1, BORDER))),
        Cell(0, 1, BORDER, BORDER + 4, 1, high, ((BORDER, BORDER + 1), (BORDER + 2, BORDER + 4))),
    ]


def test_a_commit_of_an_older_version_has_no_cells() -> None:
    sums = RowSums(PlannedRange(0, 0, 2))
    sums.add(table(0, 1))
    file = described(sums, 0, 2)
    text = file.to_json().replace(f',"sums":[[0,2,{sums.sums()[0].checksum}]],"holes":[]', "")
    old = DataFile.from_json(text)
    assert (old.rows, old.sums) == (2, ())
    assert sums.sums() == (FileSum(0, 2, sums.sums()[0].checksum),)
    append = TableAppend(commit_id=uuid4(), starts={0: 0}, ends={0: 2}, files=[old])
    assert committed_cells(append) == []


run = st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda p: Run(p[0], p[0] + p[1]))


@given(st.lists(run), st.lists(run))
def test_what_is_left_of_runs_is_left(runs: list[Run], taken: list[Run]) -> None:
    def offsets(some: list[Run]) -> set[int]:
        return {offset for each in some for offset in range(*each)}

    left = list(without(runs, taken))
    assert offsets(left) == offsets(runs) - offsets(taken)
    assert all(one.next <= other.first for one, other in pairwise(left))
