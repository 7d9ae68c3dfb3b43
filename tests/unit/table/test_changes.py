"""Offsets that came and went, from files that are read side by side."""

import threading
from collections import Counter
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile

from lakestream_spark.core.errors import LostFile
from lakestream_spark.table import changes
from lakestream_spark.table.changes import Change, FileChanges, offsets_changed
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.foreign import judge

Rows = list[tuple[int, int]]
"""Partition and offset of each row of a file."""


def file_named(name: str) -> DataFile:
    return DataFile.from_args(file_path=name, record_count=0, lower_bounds={}, upper_bounds={})


def change_of(added: list[Rows], removed: list[Rows], lost: set[str] | None = None) -> Change:
    """Between snapshots with these files, of which one without rows is not there."""
    contents = {f"added{n}": rows for n, rows in enumerate(added)}
    contents |= {f"removed{n}": rows for n, rows in enumerate(removed)}

    def read(_: Any, file: DataFile, __: Any) -> pa.Table:
        rows = contents[file.file_path]
        if not rows:
            raise LostFile("data loss", file=file.file_path)
        partitions, offsets = zip(*rows, strict=True)
        return pa.table(
            {PARTITION: pa.array(partitions, pa.int32()), OFFSET: pa.array(offsets, pa.int64())}
        )

    files = FileChanges(
        added=[file_named(name) for name in contents if name.startswith("added")],
        removed=[file_named(name) for name in contents if name.startswith("removed")],
        touched=[],
        gone_before={},
        gone_now={},
    )
    with patch.object(changes, "live_rows_of", read):
        return offsets_changed(None, files, lost)  # type: ignore[arg-type]


def in_runs(runs: Any) -> Counter[tuple[int, int]]:
    return Counter((p, n) for p, own in runs.items() for run in own for n in range(*run))


FILES = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60)), min_size=1, max_size=80), max_size=4
)


@given(added=FILES, removed=FILES)
def test_every_row_counts_as_often_as_it_is_there(added: list[Rows], removed: list[Rows]) -> None:
    change = change_of(added, removed)
    assert in_runs(change.added) == Counter(row for rows in added for row in rows)
    assert in_runs(change.removed) == Counter(row for rows in removed for row in rows)


def test_rows_in_any_order_over_many_files_are_a_few_runs() -> None:
    files = [[(0, n) for n in range(own, 4000, 4)] for own in range(4)]
    change = change_of(files, files)
    assert change.added == change.removed == {0: [(0, 4000)]}
    assert judge(change) is None
    twice = judge(change_of([*files, [(0, 7)]], files))
    assert twice is not None
    assert (twice.offset, twice.repeated) == (7, True)


def test_files_are_read_side_by_side() -> None:
    together = threading.Barrier(3)

    def read(*_: Any) -> pa.Table:
        together.wait(10)
        return pa.table({PARTITION: pa.array([0], pa.int32()), OFFSET: pa.array([1], pa.int64())})

    files = FileChanges(
        added=[file_named("a"), file_named("b")],
        removed=[file_named("c")],
        touched=[],
        gone_before={},
        gone_now={},
    )
    with patch.object(changes, "live_rows_of", read):
        change = offsets_changed(None, files)  # type: ignore[arg-type]
    assert in_runs(change.added) == {(0, 1): 2}
    assert in_runs(change.removed) == {(0, 1): 1}


def test_a_lost_file_is_passed_over_only_for_those_who_take_its_name() -> None:
    files: list[Rows] = [[(0, 1)], [], [(0, 3)]]
    lost: set[str] = set()
    assert in_runs(change_of(files, [], lost).added) == {(0, 1): 1, (0, 3): 1}
    assert lost == {"added1"}
    with pytest.raises(LostFile, match="added1"):
        change_of(files, [])
