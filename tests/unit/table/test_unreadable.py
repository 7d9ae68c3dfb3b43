"""A file that cannot be read is damaged, or its store does not answer: one is not the other."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import InputFile, InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from lakestream_spark.core.errors import Corrupt, Unavailable
from lakestream_spark.table.unreadable import Part, telling_why

ROWS = 20_000
REPLY_LOST = OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 52")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two row groups."""
    noise = np.random.default_rng(7)
    numbers = noise.integers(0, 1000, ROWS)
    table = pa.table({"number": numbers, "value": [noise.bytes(30) for _ in range(ROWS)]})
    made = tmp_path / "file.parquet"
    pq.write_table(table, made, row_group_size=ROWS // 2, compression="snappy")
    return made


def read(path: Path, group: int) -> pa.Table:
    """As those who want to know why do it."""
    io = PyArrowFileIO()
    with io.new_input(str(path)).open() as stream:
        with telling_why(io, str(path)):
            file = pq.ParquetFile(stream)
        with file, telling_why(io, str(path), Part(group)):
            return file.read_row_group(group)


def cut(data: bytearray) -> None:
    del data[-500:]


def cut_to_nothing(data: bytearray) -> None:
    del data[3:]


def without_a_footer(data: bytearray) -> None:
    data[-60:-8] = bytes(range(100, 152))


def without_a_page_header(data: bytearray) -> None:
    data[4:40] = b"\xff" * 36


def with_other_values(data: bytearray) -> None:
    middle = len(data) // 4
    data[middle : middle + 2000] = b"\xff" * 2000


@pytest.mark.parametrize(
    "harm", [cut, cut_to_nothing, without_a_footer, without_a_page_header, with_other_values]
)
def test_bytes_that_cannot_be_decoded_are_damage(
    path: Path, harm: Callable[[bytearray], None]
) -> None:
    data = bytearray(path.read_bytes())
    harm(data)
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"is damaged: (.|\n)*file\.parquet"):
        read(path, 0)


def test_a_row_group_is_read_beside_a_damaged_one(path: Path) -> None:
    data = bytearray(path.read_bytes())
    without_a_page_header(data)
    path.write_bytes(data)
    assert read(path, 1).num_rows == ROWS // 2
    for part in (None, Part(1)):
        with pytest.raises(Unavailable), telling_why(PyArrowFileIO(), str(path), part):
            raise REPLY_LOST


@pytest.mark.parametrize("part", [None, Part(0), Part(1, ["number"])])
@pytest.mark.parametrize("error", [REPLY_LOST, pa.ArrowInvalid("nothing came"), StopIteration()])
def test_a_file_whose_bytes_are_good_now_was_not_damaged_before(
    path: Path, part: Part | None, error: Exception
) -> None:
    with pytest.raises(Unavailable), telling_why(PyArrowFileIO(), str(path), part):
        raise error


class Away(PyArrowFileIO):
    """Finds files, of which no byte comes, or too few."""

    def __init__(self, bytes_come: int) -> None:
        super().__init__()
        self._bytes_come = bytes_come

    def new_input(self, location: str) -> PyArrowFile:
        return _Away(super().new_input(location), self._bytes_come)  # type: ignore[return-value]


class _Away(InputFile):
    def __init__(self, file: PyArrowFile, bytes_come: int) -> None:
        super().__init__(file.location)
        self._file = file
        self._bytes_come = bytes_come

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return _Short(self._file.open(), self._bytes_come)  # type: ignore[return-value]


class _Short:
    def __init__(self, stream: InputStream, bytes_come: int) -> None:
        self._stream = stream
        self._left = bytes_come

    def seek(self, offset: int) -> int:
        return self._stream.seek(offset)

    def read(self, size: int) -> bytes:
        if not self._left:
            raise REPLY_LOST
        size, self._left = min(size, self._left), max(0, self._left - size)
        return self._stream.read(size)

    def __enter__(self) -> "_Short":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


@pytest.mark.parametrize("bytes_come", [0, 4, 100, 2000, 100_000])
def test_bytes_that_do_not_come_are_no_damage(path: Path, bytes_come: int) -> None:
    data = bytearray(path.read_bytes())
    without_a_page_header(data)
    path.write_bytes(data)
    with pytest.raises(Unavailable), telling_why(Away(bytes_come), str(path), Part(0)):
        raise pa.ArrowInvalid("something is wrong")


def test_a_file_that_is_gone_and_errors_of_the_system_go_through(path: Path) -> None:
    for error in (FileNotFoundError(2, "gone"), PermissionError(13, "no"), TimeoutError()):
        with pytest.raises(type(error)), telling_why(PyArrowFileIO(), str(path)):
            raise error
    path.unlink()
    with pytest.raises(FileNotFoundError), telling_why(PyArrowFileIO(), str(path)):
        raise REPLY_LOST
