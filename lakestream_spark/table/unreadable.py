"""Why a Parquet file could not be read: its bytes are wrong, or its store did not answer.

Arrow raises the same plain `OSError` for both. What always holds: a file is called damaged only if
the bytes in question came whole and cannot be decoded. For that they are fetched once more, of one
row group at most, and decoded where no store can fail.
"""

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, InputStream

from lakestream_spark.core.errors import Corrupt, Unavailable

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
"""The length of the footer, and the magic bytes."""
_PADDING_BYTES: Final = 100
"""Some old writers tell sizes of columns that are too small by less than this."""
_PIECE_ROWS: Final = 4096


class Part(NamedTuple):
    """Columns of a row group; all that there are when none are named."""

    group: int
    columns: Sequence[str] | None = None


@contextmanager
def telling_why(io: FileIO, path: str, part: Part | None = None) -> Iterator[None]:
    """Raises `Corrupt` when the part that is read in the block is damaged, or else the footer is.

    Raises `Unavailable` when its bytes did not come; `FileNotFoundError` and other errors of the
    system go through.
    """
    try:
        yield
    except (pa.ArrowInvalid, StopIteration, OSError) as error:
        # Only what Arrow says itself is in doubt: it knows no error number.
        if isinstance(error, OSError) and (error.errno is not None or type(error) is not OSError):
            raise
        if _is_whole(io, path, part):
            raise Unavailable(f"the store did not answer: {error}", path=path) from error
        sentence = f"a data file of the table is damaged: {error}"
        raise Corrupt(sentence, path=path) from error


def _is_whole(io: FileIO, path: str, part: Part | None) -> bool:
    try:
        file = io.new_input(path)
        with file.open() as source:
            return _decodes(source, len(file), part)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unavailable(f"the store does not answer: {error}", path=path) from error


def _decodes(source: InputStream, size: int, part: Part | None) -> bool:
    """Raises `OSError` when bytes do not come."""
    if size < _TAIL_BYTES:
        return False
    copy = _Copy(source, size)
    tail = copy.fetch(size - _TAIL_BYTES, _TAIL_BYTES)
    begin = size - _TAIL_BYTES - int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or begin < 0:
        return False
    copy.fetch(begin, size - _TAIL_BYTES - begin)
    try:
        with pq.ParquetFile(copy.reader()) as file:
            if part is None:
                return True
            for first, count in _ranges(file, part):
                copy.fetch(first, min(count, size - first))
            return bool(_count(file, part) == file.metadata.row_group(part.group).num_rows)
    except _BytesMissing:
        raise
    except (pa.ArrowInvalid, OSError, IndexError):
        return False


class _BytesMissing(OSError):
    """The store gave fewer bytes than there are."""


class _Copy:
    """Bytes of a file in memory, each in its place; what was not fetched takes no room."""

    def __init__(self, source: InputStream, size: int) -> None:
        self._source = source
        self._held = mmap.mmap(-1, size)

    def fetch(self, first: int, count: int) -> bytes:
        try:
            self._source.seek(first)
            data = self._source.read(count)
        except OSError as error:
            raise _BytesMissing(str(error)) from error
        if len(data) < count:
            raise _BytesMissing(f"{len(data)} of {count} bytes came")
        self._held[first : first + count] = data
        return data

    def reader(self) -> pa.BufferReader:
        return pa.BufferReader(pa.py_buffer(self._held))


def _ranges(file: pq.ParquetFile, part: Part) -> Iterator[tuple[int, int]]:
    """Where the part is in the file, as its footer says."""
    group = file.metadata.row_group(part.group)
    for column in map(group.column, range(group.num_columns)):
        if part.columns is None or column.path_in_schema.split(".")[0] in part.columns:
            starts = (column.dictionary_page_offset, column.data_page_offset)
            first = min(start for start in starts if start)
            yield first, max(0, column.total_compressed_size) + _PADDING_BYTES


def _count(file: pq.ParquetFile, part: Part) -> int:
    """How many rows can be decoded."""
    columns = None if part.columns is None else list(part.columns)
    pieces = file.iter_batches(
        batch_size=_PIECE_ROWS, row_groups=[part.group], columns=columns, use_threads=False
    )
    return sum(piece.num_rows for piece in pieces)
