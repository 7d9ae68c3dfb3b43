"""pyiceberg's file access for a warehouse on a local disk: what it writes is there after a crash.

What always holds: a file that was closed is on the disk, with its name and the folders above it;
one that is not to be overwritten is made by the kernel in one step, so that of two writers of a
name one fails.
"""

import os
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from lakestream_spark.table.durable import sync

LOCAL: Final = "file"


class SyncedFileIO(PyArrowFileIO):
    """`PyArrowFileIO` that syncs local files and their folders when they are closed."""

    def new_output(self, location: str) -> PyArrowFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != LOCAL:
            return super().new_output(location)
        return _SyncedFile(location, path, self.fs_by_scheme(scheme, netloc))


class _SyncedFile(PyArrowFile):
    """A local file to be written once."""

    def create(self, overwrite: bool = False) -> OutputStream:
        path = Path(self._path)
        _make_folder(path.parent)
        if not overwrite:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        return _SyncedStream(self._path, "wb")


class _SyncedStream(pa.OSFile):  # type: ignore[misc]
    """A stream whose `close` returns when the bytes are on the disk."""

    def __init__(self, path: str, mode: str) -> None:  # noqa: ARG002 - Arrow opens by `__new__`
        super().__init__()
        self._written_to = path

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        sync([self._written_to])


def _make_folder(folder: Path) -> None:
    """Make the folder and those above it, each with its name on the disk."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync([str(folder)])
