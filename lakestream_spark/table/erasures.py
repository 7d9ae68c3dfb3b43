"""What snapshots of others, and of retention, did to rows: taken down before they may expire.

What always holds: a snapshot that only replaces files (a merge) is taken at its word, because the
checksums hold it to that; of any other the rows that went and that came are read and summed, but
for cells that went as a whole, whose sum is known. Only what the cells cover is looked at. What was
taken down of a snapshot that was rolled back counts no more.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from lakestream_spark.metadata.cells import CELL_BITS, CellChange, Ledger, TableChange
from lakestream_spark.table.cells import on_the_grid, sums_of
from lakestream_spark.table.changes import Change, FileChanges, file_changes, offsets_changed
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.expected import Expected
from lakestream_spark.table.file_offsets import HiddenOffsets, files_of, opened
from lakestream_spark.table.foreign import commit_id_of
from lakestream_spark.table.layout import UPKEEP_PROPERTY
from lakestream_spark.table.runs import Run, size_of, within, without
from lakestream_spark.table.snapshots import is_the_first

_ENGINE: Final = "engine-name"
_BATCH_ROWS: Final = 64 * 1024


class Findings(NamedTuple):
    """Changes that were not taken down yet, oldest first, and what must not expire."""

    changes: tuple[TableChange, ...]
    keep_from: int | None = None
    """The sequence number from which on snapshots are still needed to find out more."""


def rolled_back(table: Table, changes: Iterable[TableChange]) -> list[TableChange]:
    """Those of snapshots that the table left again: beside the line that leads to the current one.

    The line is known down to its oldest snapshot that has not expired; of what is below that it
    was asked before.
    """
    line = list(ancestors_of(table.current_snapshot(), table.metadata))
    if not line:
        return []
    known = {snapshot.snapshot_id for snapshot in line}
    oldest = _number(line[-1])
    return [
        change
        for change in changes
        if change.snapshot_id not in known and change.sequence_number > oldest
    ]


def standing_changes(table: Table, ledger: Ledger) -> list[TableChange]:
    """What was taken down and still counts."""
    left = {change.snapshot_id for change in rolled_back(table, ledger.changes)}
    return [change for change in ledger.changes if change.snapshot_id not in left]


def new_changes(table: Table, ledger: Ledger, *, in_flight: bool = False) -> Findings:
    """What the snapshots below the current one did that the ledger does not know.

    `in_flight` says that a commit of ours is in the table, perhaps, and not yet in the ledger.
    """
    standing = standing_changes(table, ledger)
    known = {change.snapshot_id for change in standing}
    expected = Expected(ledger.cells)
    for change in standing:
        expected.apply(change)
    found: list[TableChange] = []
    hidden: list[tuple[Snapshot | None, Snapshot]] = []
    for below, snapshot in _foreign(table):
        if snapshot.snapshot_id in known or (_only_replaces(snapshot) and not hidden):
            continue
        base = hidden[0][0] if hidden else below
        try:
            with files_of(snapshot):
                files = file_changes(table.io, base, snapshot)
                offsets = offsets_changed(table.io, files)
        except HiddenOffsets:
            hidden.append((below, snapshot))
            continue
        if in_flight and _reaches_beyond(offsets, ledger):
            return Findings(tuple(found), _number(base))
        found += [_described(each, ()) for _, each in hidden]
        with files_of(snapshot):
            cells = _cells(table.io, files, offsets, expected)
        found.append(_described(snapshot, cells))
        expected.apply(found[-1])
        hidden.clear()
    return Findings(tuple(found), _number(hidden[0][0]) if hidden else None)


def _foreign(table: Table) -> Iterator[tuple[Snapshot | None, Snapshot]]:
    """Snapshots that are not our commits, each with the one below it, oldest first."""
    for snapshot in reversed(list(ancestors_of(table.current_snapshot(), table.metadata))):
        parent = snapshot.parent_snapshot_id
        below = None if parent is None else table.snapshot_by_id(parent)
        # Without the one below nothing can be said; it was there when it was this one's turn.
        if commit_id_of(snapshot) is None and (below is not None or is_the_first(snapshot)):
            yield below, snapshot


def _only_replaces(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


def _number(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None else snapshot.sequence_number or 0


def _described(snapshot: Snapshot, cells: Sequence[CellChange]) -> TableChange:
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    operation = "" if snapshot.summary is None else snapshot.summary.operation.value
    upkeep = summary.get(UPKEEP_PROPERTY)
    return TableChange(
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        at_ms=snapshot.timestamp_ms,
        operation=upkeep or operation,
        engine="lakestream" if upkeep else summary.get(_ENGINE, "an engine without a name"),
        cells=tuple(cells),
    )


def _cells(io: FileIO, files: FileChanges, offsets: Change, expected: Expected) -> list[CellChange]:
    """What changed, by cell."""
    cells: list[CellChange] = []
    unknown: dict[tuple[int, int], CellChange] = {}
    for part in _by_cell(offsets, expected):
        cell = expected.cell(part.partition, part.number)
        if cell is not None and part.rows == cell.rows:
            cells.append(part._replace(checksum=cell.checksum))
        elif cell is not None:
            unknown[part.partition, part.number] = part._replace(rows=0)
    if unknown:
        _read(io, files, expected, unknown)
    return sorted([*cells, *unknown.values()])


def _reaches_beyond(change: Change, ledger: Ledger) -> bool:
    return any(
        run.next > ledger.table_ends.get(partition, 0)
        for runs in (change.added, change.removed)
        for partition, own in runs.items()
        for run in own
    )


def _by_cell(change: Change, expected: Expected) -> Iterator[CellChange]:
    """Offsets that went for good and that came from nowhere; rows only if they just went."""
    covered = expected.covered
    for partition in sorted(change.added.keys() | change.removed.keys()):
        room = [covered[partition]] if partition in covered else []
        went = list(within(change.removed.get(partition, ()), room))
        came = list(within(change.added.get(partition, ()), room))
        gone, back = list(without(went, came)), list(without(came, went))
        for number in sorted({run.first >> CELL_BITS for run in on_the_grid([*went, *came])}):
            place = [Run(number << CELL_BITS, (number + 1) << CELL_BITS)]
            is_rewritten = any(True for _ in within(came, place))
            yield CellChange(
                partition,
                number,
                -1 if is_rewritten else size_of(within(went, place)),
                0,
                tuple(within(gone, place)),
                tuple(within(back, place)),
            )


def _read(
    io: FileIO,
    files: FileChanges,
    expected: Expected,
    into: dict[tuple[int, int], CellChange],
) -> None:
    """Sum the rows that went and that came, in the cells that are asked for."""
    covered = expected.covered
    for sign, rows in _rows_of(io, files):
        for partition in pc.unique(rows[PARTITION]).to_pylist():
            room = covered.get(partition)
            if room is None:
                continue
            inside = pc.and_(
                pc.equal(rows[PARTITION], partition),
                pc.and_(
                    pc.greater_equal(rows[OFFSET], room.first), pc.less(rows[OFFSET], room.next)
                ),
            )
            for each in sums_of(rows.filter(inside)):
                known = into.get((partition, each.cell))
                if known is not None:
                    into[partition, each.cell] = known._replace(
                        rows=known.rows + sign * each.rows,
                        checksum=known.checksum ^ each.checksum,
                    )


def _rows_of(io: FileIO, files: FileChanges) -> Iterator[tuple[int, pa.Table]]:
    """Rows that went, with 1, and that came, with -1."""
    nothing: frozenset[int] = frozenset()
    for file in files.removed:
        yield from ((1, rows) for rows in _but(io, file, files.gone_before.get(file.file_path)))
    for file in files.added:
        yield from ((-1, rows) for rows in _but(io, file, files.gone_now.get(file.file_path)))
    for file in files.touched:
        was = files.gone_before.get(file.file_path, nothing)
        now = files.gone_now.get(file.file_path, nothing)
        for start, rows in _batches(io, file):
            for sign, positions in ((1, now - was), (-1, was - now)):
                own = [each - start for each in positions if 0 <= each - start < len(rows)]
                if own:
                    yield sign, rows.take(sorted(own))


def _but(io: FileIO, file: DataFile, gone: frozenset[int] | None) -> Iterator[pa.Table]:
    for start, rows in _batches(io, file):
        if gone:
            kept = [at for at in range(len(rows)) if start + at not in gone]
            yield rows.take(kept)
        else:
            yield rows


def _batches(io: FileIO, file: DataFile) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a file in pieces, each with the position of its first."""
    start = 0
    with opened(io, file) as parquet:
        for batch in parquet.iter_batches(_BATCH_ROWS):
            yield start, pa.Table.from_batches([batch])
            start += batch.num_rows
