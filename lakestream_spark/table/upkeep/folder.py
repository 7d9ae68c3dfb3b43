"""The files below a table's root, listed and deleted through the access pyiceberg has."""

import json
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table.places import canonical

_NOTES: Final = "_maintain"


class TableFolder:
    """Paths are relative to the root of the table."""

    def __init__(self, table: Table) -> None:
        place = urlsplit(canonical(table.location()))
        self._files: FileSystem = PyArrowFileIO(table.io.properties).fs_by_scheme(
            place.scheme or "file", place.netloc or None
        )
        self._root = f"{place.netloc}{place.path}".rstrip("/")

    def list(self) -> dict[str, int]:
        """Every file with its size, but for Delta's log and our own notes."""
        selector = FileSelector(self._root, recursive=True, allow_not_found=True)
        try:
            infos = self._files.get_file_info(selector)
        except OSError as error:
            raise Unavailable(f"the table's folder cannot be listed: {error}") from error
        found = {
            info.path.removeprefix(self._root).lstrip("/"): info.size
            for info in infos
            if info.type is FileType.File
        }
        return {
            path: size
            for path, size in found.items()
            if not path.startswith(("_delta_log/", f"{_NOTES}/"))
        }

    def delete(self, paths: Iterable[str]) -> int:
        """Each by itself; one that is gone already does not count."""
        deleted = 0
        for path in paths:
            try:
                self._files.delete_file(f"{self._root}/{path}")
                deleted += 1
            except FileNotFoundError:
                continue
            except OSError as error:
                raise Unavailable(f"a file cannot be deleted: {error}", file=path) from error
        return deleted

    def read_note(self, name: str) -> dict[str, int]:
        """A note of an earlier round; empty if there is none or it cannot be read."""
        try:
            with self._files.open_input_stream(f"{self._root}/{_NOTES}/{name}.json") as stream:
                return {str(key): int(value) for key, value in json.loads(stream.read()).items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def write_note(self, name: str, note: Mapping[str, int]) -> None:
        try:
            self._files.create_dir(f"{self._root}/{_NOTES}")
            with self._files.open_output_stream(f"{self._root}/{_NOTES}/{name}.json") as stream:
                stream.write(json.dumps(note).encode())
        except OSError as error:
            raise Unavailable(f"a note cannot be written: {error}", note=name) from error

    def read_bytes(self, path: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{path}") as stream:
                return bytes(stream.read())
        except OSError:
            return None
