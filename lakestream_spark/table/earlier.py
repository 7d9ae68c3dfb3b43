"""Earlier metadata files of a table, to one of which a remedy leads back.

What always holds: a file that cannot be read is passed over; only the newest ones are looked at.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from lakestream_spark.table import folders
from lakestream_spark.table.outage import DAMAGES, OUTAGES

_MOST: Final = 100
_SUFFIX: Final = ".metadata.json"


def in_log(table: Table, is_good: Callable[[TableMetadata], bool]) -> str | None:
    """The newest good one that the table's own metadata names."""
    files = (entry.metadata_file for entry in reversed(table.metadata.metadata_log))
    return _first_good(table.io, files, is_good)


def in_folder(io: FileIO, folder: str, is_good: Callable[[TableMetadata], bool]) -> str | None:
    """The newest good one that lies in a folder, for a table that cannot be asked any more."""
    names = sorted(folders.names_in(io, folder), reverse=True)
    files = (f"{folder}/{name}" for name in names if name.endswith(_SUFFIX))
    return _first_good(io, files, is_good)


def _first_good(
    io: FileIO, files: Iterable[str], is_good: Callable[[TableMetadata], bool]
) -> str | None:
    for file in islice(files, _MOST):
        try:
            found = FromInputFile.table_metadata(io.new_input(file))
        except (*OUTAGES, *DAMAGES):
            continue
        if is_good(found):
            return file
    return None
