"""Folders of a warehouse: listed and removed through the file system below pyiceberg's FileIO."""

from pyarrow import fs
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakestream_spark.core.errors import Misconfigured


def names_in(io: FileIO, location: str) -> list[str]:
    """The names of the files directly in a folder; none when there is no such folder."""
    system, path = _opened(io, location)
    selector = fs.FileSelector(path, allow_not_found=True)
    return [info.base_name for info in system.get_file_info(selector) if info.is_file]


def remove(io: FileIO, location: str) -> bool:
    """Remove a folder with everything in it; whether there was one."""
    system, path = _opened(io, location)
    if system.get_file_info(path).type == fs.FileType.NotFound:
        return False
    system.delete_dir(path)
    return True


def _opened(io: FileIO, location: str) -> tuple[fs.FileSystem, str]:
    if not isinstance(io, PyArrowFileIO):
        raise Misconfigured("folders are read through PyArrow only", io=type(io).__name__)
    scheme, netloc, path = io.parse_location(location, io.properties)
    return io.fs_by_scheme(scheme, netloc), path
