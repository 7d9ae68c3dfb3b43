"""The rows of a cell, read from the table's files: offsets, order, checksum.

What always holds: a difference is one of the bytes that are there; a store that does not answer is
a retriable error.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import xor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakestream_spark.core.errors import Corrupt, Unavailable
from lakestream_spark.table.cells import sums_of
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.expected import ExpectedCell
from lakestream_spark.table.outage import OUTAGES
from lakestream_spark.table.runs import Run, first_outside, first_repeated, runs_of
from lakestream_spark.table.unreadable import Part, telling_why
from lakestream_spark.verify.files import LiveFile


def files_of(files: Sequence[LiveFile], cell: ExpectedCell) -> list[LiveFile]:
    """Those that may hold rows of the cell."""
    return [
        file
        for file in files
        if file.partition == cell.partition
        and file.place.first < cell.next
        and cell.first < file.place.next
    ]


def bytes_of(files: Sequence[LiveFile], cell: ExpectedCell) -> int:
    """About how many bytes of files the cell is."""
    shares = (
        file.size
        * (min(file.place.next, cell.next) - max(file.place.first, cell.first))
        // (file.place.next - file.place.first)
        for file in files_of(files, cell)
    )
    return sum(shares)


def check_cell(io: FileIO, files: Sequence[LiveFile], cell: ExpectedCell) -> pa.Table | None:
    """Some rows of the cell, which has those that were committed less what was erased.

    One row group is held at a time: a cell of large records may be larger than memory.
    """
    own = files_of(files, cell)
    some: pa.Table | None = None
    checksum, offsets = 0, [pa.array([], pa.int64())]
    for file in own:
        for rows in _rows_of(io, file, Run(cell.first, cell.next)):
            if rows.num_rows:
                some = rows
                checksum = reduce(xor, (each.checksum for each in sums_of(rows)), checksum)
                offsets += rows[OFFSET].chunks
    _check_offsets(cell, runs_of(pa.concat_arrays(offsets)))
    if checksum != cell.checksum:
        raise Corrupt(
            "rows are not those that were committed: their checksum differs",
            partition=cell.partition,
            offsets=f"[{cell.first}, {cell.next})",
            expected=in_hex(cell.checksum),
            actual=in_hex(checksum),
            files=", ".join(file.location for file in own),
        )
    return some


def in_hex(checksum: int) -> str:
    return f"{checksum & 0xFFFFFFFFFFFFFFFF:016x}"


def _check_offsets(cell: ExpectedCell, found: Sequence[Run]) -> None:
    expected = list(cell.live)
    repeated = first_repeated(found)
    lost = first_outside(expected, found)
    strange = first_outside(found, expected)
    for offset, sentence in (
        (repeated, "an offset is in the table twice"),
        (lost, "data loss: a row that was committed is in no file, and nothing explains it"),
        (strange, "a row is in the table that was never committed, or was erased"),
    ):
        if offset is not None:
            raise Corrupt(sentence, partition=cell.partition, offset=offset)


def _rows_of(io: FileIO, file: LiveFile, place: Run) -> Iterator[pa.Table]:
    """The live rows of a file in a place, row group by row group.

    Raises `Corrupt` when the file is lost or damaged, `Unavailable` when its store does not answer.
    """
    where = {"partition": file.partition, "file": file.location}
    last = -1
    try:
        for start, rows in _groups_of(io, file.location, place):
            last = _check_order(rows, last, file)
            yield _within(rows, start, place, file)
    except FileNotFoundError as error:
        raise Corrupt(f"data loss: a data file is not in the store: {error}", **where) from error
    except OUTAGES as error:
        raise Unavailable(f"a data file cannot be read: {error}", **where) from error


def _groups_of(io: FileIO, path: str, place: Run) -> Iterator[tuple[int, pa.Table]]:
    """Row groups that may hold rows of a place, each with the position of its first row."""
    with io.new_input(path).open() as stream:
        with telling_why(io, path):
            parquet = pq.ParquetFile(stream)
        with parquet:
            start = 0
            for number in range(parquet.num_row_groups):
                if _may_hold(parquet, number, place):
                    with telling_why(io, path, Part(number)):
                        rows = parquet.read_row_group(number)
                    yield start, rows
                start += parquet.metadata.row_group(number).num_rows


def _may_hold(parquet: pq.ParquetFile, number: int, place: Run) -> bool:
    group = parquet.metadata.row_group(number)
    columns = (group.column(each) for each in range(group.num_columns))
    bounds = next((own.statistics for own in columns if own.path_in_schema == OFFSET), None)
    if bounds is None or not bounds.has_min_max:
        return True
    return bool(bounds.min < place.next and place.first <= bounds.max)


def _check_order(rows: pa.Table, last: int, file: LiveFile) -> int:
    offsets = rows[OFFSET].to_numpy()
    if not len(offsets):
        return last
    if file.is_sorted:
        before = np.concatenate(([last], offsets[:-1]))
        wrong = np.flatnonzero(offsets <= before)
        if len(wrong):
            raise Corrupt(
                "a data file is not in offset order, though the table says so",
                partition=file.partition,
                offset=int(offsets[wrong[0]]),
                file=file.location,
            )
    return int(offsets[-1])


def _within(rows: pa.Table, start: int, place: Run, file: LiveFile) -> pa.Table:
    if file.deleted:
        kept = [at for at in range(len(rows)) if start + at not in file.deleted]
        rows = rows.take(kept)
    if file.is_shared:
        rows = rows.filter(pc.equal(rows[PARTITION], file.partition))
    offsets = rows[OFFSET]
    inside = pc.and_(pc.greater_equal(offsets, place.first), pc.less(offsets, place.next))
    return rows.filter(inside)
