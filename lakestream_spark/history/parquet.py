"""Parquet files of the table as history reads them: footers are kept, files are opened cheaply.

What always holds: a column is found by its field id, or else by its name, so that files that other
engines wrote after a rename are read as well; a column that a file has not is null; what a store
fails to give is not called damaged. Local files are mapped into memory, others are fetched in large
ranges.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.table.columns import ARROW_SCHEMA, ICEBERG_SCHEMA, OFFSET
from lakestream_spark.table.places import canonical
from lakestream_spark.table.unreadable import Part, telling_why

_FIELD_ID: Final = b"PARQUET:field_id"
_IDS: Final = {field.name: str(field.field_id).encode() for field in ICEBERG_SCHEMA.fields}
_MAX_FOOTERS: Final = 1024


class Footer(NamedTuple):
    """What the end of a file says: its row groups, and which of its columns are ours."""

    path: str
    metadata: pq.FileMetaData
    names: dict[str, str]
    """The file's name for each of our columns that it has."""
    leaves: dict[str, int]
    """Where the statistics of a plain column are."""

    def rows(self, group: int) -> int:
        return int(self.metadata.row_group(group).num_rows)

    def bounds(self, column: str, group: int) -> tuple[Any, Any] | None:
        """The smallest and the largest value of a row group, if it tells."""
        leaf = self.leaves.get(column)
        if leaf is None:
            return None
        found = self.metadata.row_group(group).column(leaf).statistics
        if found is None or not found.has_min_max:
            return None
        return found.min, found.max


class Footers:
    """Footers by path; the name of a file is never used twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Footer] = OrderedDict()

    def of(self, io: FileIO, path: str) -> Footer:
        """Raises `FileNotFoundError` when the file is gone."""
        with self._lock:
            known = self._known.get(path)
            if known is not None:
                self._known.move_to_end(path)
                return known
        with open_parquet(io, path) as file:
            footer = _described(path, file)
        with self._lock:
            self._known[path] = footer
            while len(self._known) > _MAX_FOOTERS:
                self._known.popitem(last=False)
        return footer


def open_parquet(io: FileIO, path: str, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Raises `FileNotFoundError` when the file is gone, `Corrupt` when it is no Parquet, and
    `Unavailable` when its store does not answer."""
    place = canonical(path)
    local = place.startswith("/")
    source = pa.memory_map(place) if local else io.new_input(path).open()
    with telling_why(io, path):
        return pq.ParquetFile(source, metadata=metadata, pre_buffer=not local)


def read_columns(io: FileIO, footer: Footer, group: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of a row group, in the file's order, under our names."""
    names = [footer.names[column] for column in columns if column in footer.names]
    part = Part(group, names)
    with open_parquet(io, footer.path, footer.metadata) as file, telling_why(io, footer.path, part):
        found = file.read_row_group(group, columns=names, use_threads=False)
    return _renamed(found, footer, columns)


class GroupCursor:
    """The rows of one row group, piece by piece in the file's order; not for two threads."""

    def __init__(self, io: FileIO, footer: Footer, group: int, piece_rows: int) -> None:
        names = [footer.names[name] for name in ARROW_SCHEMA.names if name in footer.names]
        self._io = io
        self._footer = footer
        self._part = Part(group, names)
        self._file = open_parquet(io, footer.path, footer.metadata)
        self._pieces: Iterator[pa.RecordBatch] = self._file.iter_batches(
            batch_size=piece_rows, row_groups=[group], columns=names, use_threads=False
        )
        self._left: list[pa.RecordBatch] = []
        self.position = 0

    def skip_to(self, row: int) -> None:
        while self.position < row:
            self.take(min(row - self.position, 64 * 1024))

    def take(self, count: int) -> pa.Table:
        """The next rows."""
        held, have = self._left, sum(each.num_rows for each in self._left)
        with telling_why(self._io, self._footer.path, self._part):
            while have < count:
                held.append(next(self._pieces))
                have += held[-1].num_rows
        table = pa.Table.from_batches(held)
        rest = table.slice(count)
        self._left = rest.to_batches() if rest.num_rows else []
        self.position += count
        return _renamed(table.slice(0, count), self._footer, ARROW_SCHEMA.names)

    def close(self) -> None:
        self._file.close(force=True)


def _described(path: str, file: pq.ParquetFile) -> Footer:
    metadata = file.metadata
    by_id = {(field.metadata or {}).get(_FIELD_ID): field.name for field in file.schema_arrow}
    present = set(file.schema_arrow.names)
    names: dict[str, str] = {}
    for column, field_id in _IDS.items():
        name = by_id.get(field_id, column if column in present else None)
        if name is not None:
            names[column] = name
    paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
    if OFFSET not in names:
        raise Corrupt("a data file of the table has no offsets", path=path)
    leaves = {column: paths.index(name) for column, name in names.items() if name in paths}
    return Footer(path, metadata, names, leaves)


def _renamed(table: pa.Table, footer: Footer, columns: Sequence[str]) -> pa.Table:
    arrays = [
        table[footer.names[column]]
        if column in footer.names
        else pa.chunked_array([pa.nulls(table.num_rows, ARROW_SCHEMA.field(column).type)])
        for column in columns
    ]
    return pa.Table.from_arrays(arrays, names=list(columns))
