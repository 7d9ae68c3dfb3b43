"""Files of the tables as DuckDB opens them: local ones by itself, others as the catalog does.

DuckDB would need an extension for each kind of store, downloaded, and the keys once more. It asks
this file system instead, which asks what reads the tables everywhere else.
"""

from datetime import UTC, datetime
from os import SEEK_END
from typing import Any, Final

from fsspec import AbstractFileSystem
from pyiceberg.io import FileIO

from lakestream_spark.table.places import canonical

_GLOB: Final = frozenset("*?[")
_NEVER_CHANGES: Final = datetime(2000, 1, 1, tzinfo=UTC)


class StoredFiles(AbstractFileSystem):  # type: ignore[misc]
    """Opens what `place_of` names, files of one table, which are written once."""

    cachable = False

    def __init__(self, io: FileIO, number: int) -> None:
        super().__init__()
        # A table may have keys of its own, so each has a scheme of its own.
        self.protocol = f"lakestream{number}"
        self._io = io
        self._sizes: dict[str, int] = {}

    def place_of(self, path: str) -> str:
        """What DuckDB is told to read for a data file of a table."""
        place = canonical(path)
        if place.startswith("/") and not _GLOB & set(place):
            return place
        return f"{self.protocol}://{path}"

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:  # noqa: ARG002
        stream = self._io.new_input(path.removeprefix(f"{self.protocol}://")).open()
        self._sizes[path] = stream.seek(0, SEEK_END)
        stream.seek(0)
        return stream

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self._size(path), "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path]

    def unstrip_protocol(self, name: str) -> str:
        return name

    def modified(self, path: str) -> datetime:  # noqa: ARG002
        return _NEVER_CHANGES

    def _size(self, path: str) -> int:
        if path not in self._sizes:
            self.open(path).close()
        return self._sizes[path]
