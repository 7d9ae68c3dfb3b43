"""Which offsets a file of the table holds, and which of its rows are deleted.

Reads two columns of a Parquet file, whoever wrote it; raises `HiddenOffsets` for a file that does
not tell, and `LostFile` for one that is not there.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import IntegerType, LongType, PrimitiveType

from lakestream_spark.core.errors import LostFile
from lakestream_spark.table.columns import ICEBERG_SCHEMA, OFFSET, PARTITION
from lakestream_spark.table.runs import Run

Positions: TypeAlias = Mapping[str, frozenset[int]]
"""Positions of deleted rows by the path of their data file."""

_PARTITION_ID: Final = ICEBERG_SCHEMA.find_field(PARTITION).field_id
_OFFSET_ID: Final = ICEBERG_SCHEMA.find_field(OFFSET).field_id
ANYTHING: Final = Run(0, 2**63 - 1)


class HiddenOffsets(Exception):
    """A file whose rows cannot be judged by their offsets."""

    def __init__(self, why: str, path: str, *, by_equality: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.path = path
        self.by_equality = by_equality


class DenseFile(NamedTuple):
    """A file that holds every offset of one run of one partition."""

    partition: int
    run: Run


class Bounds(NamedTuple):
    """Where the rows of a file lie: nowhere but in these partitions, at none but these offsets."""

    partitions: Run
    offsets: Run


def bounds(file: DataFile) -> Bounds:
    """What a file says of itself; one that says nothing may hold anything."""
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}

    def between(field_id: int, kind: PrimitiveType) -> Run:
        if field_id not in lower or field_id not in upper:
            return ANYTHING
        first, last = (int(from_bytes(kind, bound[field_id])) for bound in (lower, upper))
        return Run(first, last + 1)

    return Bounds(between(_PARTITION_ID, IntegerType()), between(_OFFSET_ID, LongType()))


def dense(file: DataFile) -> DenseFile | None:
    """What the bounds of a file with distinct offsets tell, when they tell everything."""
    partitions, offsets = bounds(file)
    if partitions.next - partitions.first != 1:
        return None
    if offsets.next - offsets.first != file.record_count:
        return None
    return DenseFile(partitions.first, offsets)


@contextmanager
def files_of(snapshot: Snapshot) -> Iterator[None]:
    """A file that is found lost in the block is one of this snapshot's."""
    try:
        yield
    except LostFile as lost:
        facts = {**lost.facts, "snapshot_id": snapshot.snapshot_id}
        raise LostFile(lost.message, **facts) from lost


def rows_of(io: FileIO, file: DataFile) -> pa.Table:
    """Partition and offset of every row, in the file's order, deleted ones too."""
    if file.file_format != FileFormat.PARQUET:
        raise HiddenOffsets(f"a data file is {file.file_format.value}, not Parquet", file.file_path)
    rows = _read(io, file, (PARTITION, OFFSET))
    if rows[PARTITION].null_count or rows[OFFSET].null_count:
        raise HiddenOffsets(f"a row has no {PARTITION} or no {OFFSET}", file.file_path)
    return rows


def live_rows_of(io: FileIO, file: DataFile, deleted: Positions) -> pa.Table:
    """The rows that are not deleted."""
    rows = rows_of(io, file)
    gone = deleted.get(file.file_path)
    if not gone:
        return rows
    return at_positions(rows, (each for each in range(len(rows)) if each not in gone))


def at_positions(rows: pa.Table, positions: Iterable[int]) -> pa.Table:
    """The rows at these positions."""
    return rows.take(pa.array(positions, pa.int64()))


def deleted_positions(io: FileIO, deletes: Iterable[DataFile]) -> Positions:
    """What the delete files delete, all together."""
    found: dict[str, set[int]] = defaultdict(set)
    for file in deletes:
        table = _read_deletes(io, file)
        for path in pc.unique(table["file_path"]).to_pylist():
            own = table.filter(pc.equal(table["file_path"], path))
            found[path].update(own["pos"].to_pylist())
    return {path: frozenset(positions) for path, positions in found.items()}


def _read_deletes(io: FileIO, file: DataFile) -> pa.Table:
    if file.content == DataFileContent.EQUALITY_DELETES:
        raise HiddenOffsets("rows are deleted by equality", file.file_path, by_equality=True)
    if file.file_format != FileFormat.PARQUET:
        raise HiddenOffsets(f"deletes are {file.file_format.value}, not Parquet", file.file_path)
    return _read(io, file, ("file_path", "pos"))


@contextmanager
def opened(io: FileIO, file: DataFile) -> Iterator[pq.ParquetFile]:
    """Raises `LostFile` when it is not there."""
    try:
        with io.new_input(file.file_path).open() as stream, pq.ParquetFile(stream) as parquet:
            yield parquet
    except FileNotFoundError as error:
        raise LostFile(
            "data loss: a file of the table is not in the store", file=file.file_path
        ) from error


def _read(io: FileIO, file: DataFile, columns: Sequence[str]) -> pa.Table:
    try:
        with opened(io, file) as parquet:
            missing = set(columns) - set(parquet.schema_arrow.names)
            if not missing:
                return parquet.read(columns=list(columns))
    except pa.ArrowInvalid as error:
        raise HiddenOffsets(f"a file cannot be read as Parquet: {error}", file.file_path) from error
    raise HiddenOffsets(f"a file has no column {', '.join(sorted(missing))}", file.file_path)
