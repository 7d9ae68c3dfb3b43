"""What is wrong with a Delta log that cannot be opened, and how it makes room for a new one.

What always holds: damage is what the log's own folder shows, never what an error says, so that a
store that does not answer is not taken for it; a log that makes room is kept beside the new one.
"""

import json
import re
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table.places import canonical

_LOG: Final = "_delta_log"
_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\..*parquet")


class LogFolder:
    """The folder of a table's Delta log."""

    def __init__(self, table: Table) -> None:
        place = urlsplit(canonical(table.location()))
        self._files: FileSystem = PyArrowFileIO(table.io.properties).fs_by_scheme(
            place.scheme or "file", place.netloc or None
        )
        self._root = f"{place.netloc}{place.path}".rstrip("/")

    def damage(self) -> str | None:
        """The first thing that is wrong with it; None when it looks whole."""
        try:
            return self._damage()
        except OSError as error:
            raise Unavailable(f"the Delta log cannot be listed: {error}") from error

    def set_aside(self) -> None:
        """Move everything away, so that there is no log."""
        aside = f"{self._root}/_delta_log_damaged/{uuid4().hex}"
        try:
            self._files.create_dir(aside)
            for name in self._names():
                self._files.move(f"{self._root}/{_LOG}/{name}", f"{aside}/{name}")
        except OSError as error:
            raise Unavailable(f"the Delta log cannot be set aside: {error}") from error

    def _damage(self) -> str | None:
        names = self._names()
        checkpoints = [int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))]
        commits = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
        if "_last_checkpoint" in names and not checkpoints:
            return "its checkpoint is missing"
        expected = max(checkpoints, default=-1) + 1
        for version in (each for each in commits if each >= expected):
            if version != expected:
                return f"version {expected} is missing"
            if not self._is_whole(version):
                return f"version {version} is damaged"
            expected += 1
        return None

    def _is_whole(self, version: int) -> bool:
        with self._files.open_input_stream(f"{self._root}/{_LOG}/{version:020d}.json") as stream:
            lines = stream.read().splitlines()
        try:
            return all(isinstance(json.loads(line), dict) for line in lines if line)
        except ValueError:
            return False

    def _names(self) -> list[str]:
        selector = FileSelector(f"{self._root}/{_LOG}", allow_not_found=True)
        infos = self._files.get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type is FileType.File)
