"""Rows counted and summed by cell, on their way into a file and into the metadata store.

The sum is the exclusive or of the rows' hashes: neither the order of rows nor the borders of files
matter, so merges and rewrites keep it, and rows that are erased are taken out by their own hashes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakestream_spark.kafka.arrow.row_hash import row_hashes
from lakestream_spark.metadata.cells import CELL_BITS, Cell, Offsets
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.table.append import TableAppend
from lakestream_spark.table.arrow_rows import pieces_of, record_columns
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.files import DataFile, FileSum
from lakestream_spark.table.runs import Run, joined, without


class RowSums:
    """Takes the rows of a range in offset order, and knows what is missing between them."""

    def __init__(self, place: PlannedRange) -> None:
        self._place = place
        self._reached = place.first
        self._holes: list[Run] = []
        self._sums: dict[int, FileSum] = {}

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self._sums.values())

    def add(self, rows: pa.Table) -> None:
        for each in sums_of(rows):
            old = self._sums.get(each.cell, FileSum(each.cell, 0, 0))
            self._sums[each.cell] = added(old, each)
        offsets = rows[OFFSET].to_numpy()
        reached = np.concatenate(([self._reached], offsets[:-1] + 1))
        for at in np.flatnonzero(offsets > reached):
            self._holes.append(Run(int(reached[at]), int(offsets[at])))
        self._reached = int(offsets[-1]) + 1

    def sums(self) -> tuple[FileSum, ...]:
        return tuple(self._sums[cell] for cell in sorted(self._sums))

    def holes(self) -> Offsets:
        rest = [Run(self._reached, self._place.next)] if self._reached < self._place.next else []
        return tuple(joined([*self._holes, *rest]))


def sums_of(rows: pa.Table) -> list[FileSum]:
    """Rows of one partition, in any order, by cell."""
    found: dict[int, FileSum] = {}
    for piece in pieces_of(rows):
        columns = record_columns(piece)
        for each in _grouped(columns.offsets.to_numpy() >> CELL_BITS, row_hashes(columns)):
            found[each.cell] = added(found.get(each.cell, FileSum(each.cell, 0, 0)), each)
    return [found[cell] for cell in sorted(found)]


def added(one: FileSum, other: FileSum) -> FileSum:
    return FileSum(one.cell, one.rows + other.rows, one.checksum ^ other.checksum)


def _grouped(cells: np.ndarray[Any, Any], hashes: np.ndarray[Any, Any]) -> Iterator[FileSum]:
    """Rows of one cell mostly follow one another."""
    if not len(cells):
        return
    starts = np.concatenate(([0], np.flatnonzero(np.diff(cells)) + 1))
    counts = np.diff(np.append(starts, len(cells)))
    sums = np.bitwise_xor.reduceat(hashes, starts).view(np.int64)
    for cell, rows, checksum in zip(cells[starts], counts, sums, strict=True):
        yield FileSum(int(cell), int(rows), int(checksum))


def committed_cells(append: TableAppend) -> list[Cell]:
    """What a commit adds to the cells of its partitions; nothing of those nobody counted."""
    files: dict[int, list[DataFile]] = defaultdict(list)
    for file in append.files:
        files[file.partition].append(file)
    found: list[Cell] = []
    for partition, first in append.starts.items():
        own = files[partition]
        if all(sum(each.rows for each in file.sums) == file.rows for file in own):
            place = PlannedRange(partition, first, append.ends[partition])
            found += _cells(place, own)
    return found


def _cells(place: PlannedRange, files: Sequence[DataFile]) -> Iterator[Cell]:
    covered = [Run(file.first, file.next) for file in files]
    within = (Run(*hole) for file in files for hole in file.holes)
    holes = list(joined([*without([Run(place.first, place.next)], covered), *within]))
    sums: dict[int, FileSum] = {}
    for each in (own for file in files for own in file.sums):
        sums[each.cell] = added(sums.get(each.cell, FileSum(each.cell, 0, 0)), each)
    for part in on_the_grid([Run(place.first, place.next)]):
        cell = part.first >> CELL_BITS
        _, rows, checksum = sums.get(cell, FileSum(cell, 0, 0))
        own_holes = tuple(hole for hole in on_the_grid(holes) if hole.first >> CELL_BITS == cell)
        yield Cell(place.partition, cell, *part, rows, checksum, own_holes)


def on_the_grid(runs: Iterable[Run]) -> Iterator[Run]:
    """The same offsets, cut where cells begin."""
    for run in runs:
        first = run.first
        while first < run.next:
            after = min(run.next, ((first >> CELL_BITS) + 1) << CELL_BITS)
            yield Run(first, after)
            first = after
