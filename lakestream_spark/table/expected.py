"""What a table should hold, cell by cell: what was committed, less what others took out lawfully.

Pure. What always holds: every offset that a cell covers is live, or it is a hole, or a change took
it; rows and checksum are those of the live ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

from lakestream_spark.metadata.cells import CELL_BITS, Cell, CellChange, TableChange
from lakestream_spark.table.runs import Run, joined, size_of, within, without


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCell:
    """A cell as it should be now."""

    partition: int
    number: int
    first: int
    next: int
    rows: int
    checksum: int
    missing: tuple[Run, ...]
    """Offsets that have no row, for whatever reason."""

    @classmethod
    def of(cls, cell: Cell) -> Self:
        return cls(
            partition=cell.partition,
            number=cell.number,
            first=cell.first,
            next=cell.next,
            rows=cell.rows,
            checksum=cell.checksum,
            missing=tuple(Run(*hole) for hole in cell.holes),
        )

    @property
    def live(self) -> Iterator[Run]:
        return without([Run(self.first, self.next)], self.missing)

    def changed(self, change: CellChange) -> "ExpectedCell":
        gone = joined([*self.missing, *(Run(*each) for each in change.gone)])
        return replace(
            self,
            rows=self.rows - change.rows,
            checksum=self.checksum ^ change.checksum,
            missing=tuple(without(gone, [Run(*each) for each in change.back])),
        )


class Expected:
    """The cells of a table; changes are applied in the order of their snapshots."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._cells: dict[int, dict[int, ExpectedCell]] = defaultdict(dict)
        self.covered: dict[int, Run] = {}
        """Of each partition with cells, the offsets that its last cells cover without a gap."""
        for cell in sorted(cells):
            self._cells[cell.partition][cell.number] = ExpectedCell.of(cell)
            before = self.covered.get(cell.partition)
            first = before.first if before is not None and before.next == cell.first else cell.first
            self.covered[cell.partition] = Run(first, cell.next)

    def apply(self, change: TableChange) -> None:
        for each in change.cells:
            cell = self.cell(each.partition, each.number)
            if cell is not None:
                self._cells[each.partition][each.number] = cell.changed(each)

    def cell(self, partition: int, number: int) -> ExpectedCell | None:
        return self._cells[partition].get(number) if partition in self._cells else None

    def cells(self, partition: int) -> list[ExpectedCell]:
        """Of a partition, in order."""
        return list(self._cells[partition].values()) if partition in self._cells else []

    def live(self, partition: int, place: Run) -> list[Run]:
        """The offsets of a partition in a place that have rows."""
        numbers = range(place.first >> CELL_BITS, ((place.next - 1) >> CELL_BITS) + 1)
        cells = (self.cell(partition, number) for number in numbers)
        return list(joined(run for cell in cells if cell for run in within(cell.live, [place])))

    def rows_in(self, partition: int, place: Run) -> int:
        return size_of(self.live(partition, place))
