"""Objects as local files: the system calls, blocking, one function per operation.

A file is written under a hidden temporary name, synced, linked to its own name and its folder
synced. So a name is either absent or a whole durable object, and a link never replaces one.

A leftover temporary file of a crashed process is removed by the first listing that meets it after
an hour. That is safe at any age: a writer whose file was taken fails to link it and tries again.
"""

# Strings and os calls, not Path: every put of a latency topic passes here.
# ruff: noqa: PTH103, PTH106, PTH108, PTH116, PTH120

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from lakestream_spark.objectstore.store import Data, ObjectInfo

LEFTOVER_AFTER_MS = 3_600_000
_TEMPORARY = ".tmp-"


def create(path: str, data: Data, *, temporary: str) -> None:
    """Make the file, durable; `FileExistsError` when the name is taken."""
    folder = os.path.dirname(path)
    hidden = f"{folder}/{_TEMPORARY}{temporary}"
    fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        try:
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        # link, not rename: rename would replace an object that is already there.
        os.link(hidden, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(hidden)
    sync_folder(folder)


def make_folders(folder: str, root: str) -> None:
    """Make the folder and all above it, and make their names durable."""
    os.makedirs(folder, exist_ok=True)
    # Folders that were already there are synced too: whoever made them may not have come so far.
    for parent in map(str, Path(folder).parents):
        if len(parent) >= len(root):
            sync_folder(parent)
            continue
        with suppress(OSError):  # above the root we may not even be allowed to look
            sync_folder(parent)


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_existing(path: str) -> None:
    """Make a file that somebody else created durable: its creator may have died before the sync."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(os.path.dirname(path))


def size(path: str) -> int:
    """The file's size; a folder is not an object."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(errno.ENOENT, "not a file", path)
    return found.st_size


def read(path: str) -> bytes:
    """The whole file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _pread(fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def read_ranges(path: str, starts: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
    """The bytes of each range, fewer where the file ends."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return [_pread(fd, start, n) for start, n in zip(starts, lengths, strict=True)]
    finally:
        os.close(fd)


def remove(paths: Sequence[str]) -> None:
    """Remove the files that are there and make that durable."""
    folders = set()
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)
            folders.add(os.path.dirname(path))
    for folder in folders:
        with suppress(FileNotFoundError):
            sync_folder(folder)


def walk(folder: str, prefix: str, *, now_ms: int) -> Iterator[ObjectInfo]:
    """The objects below a folder; old leftovers and long empty folders are removed on the way."""
    empty = True
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            empty = False
            with suppress(FileNotFoundError):
                if entry.name.startswith("."):
                    _remove_leftover(entry, now_ms)
                elif entry.is_dir(follow_symlinks=False):
                    yield from walk(entry.path, f"{prefix}{entry.name}/", now_ms=now_ms)
                else:
                    found = entry.stat()
                    yield ObjectInfo(prefix + entry.name, found.st_size, _modified_ms(found))
    if empty and prefix:
        _remove_empty(folder, now_ms)


def _remove_leftover(entry: os.DirEntry[str], now_ms: int) -> None:
    old = _modified_ms(entry.stat()) < now_ms - LEFTOVER_AFTER_MS
    if old and entry.name.startswith(_TEMPORARY):
        os.unlink(entry.path)


def _remove_empty(folder: str, now_ms: int) -> None:
    with suppress(OSError):
        if _modified_ms(os.stat(folder)) < now_ms - LEFTOVER_AFTER_MS:
            os.rmdir(folder)


def _modified_ms(found: os.stat_result) -> int:
    return found.st_mtime_ns // 1_000_000


def _write_all(fd: int, data: Data) -> None:
    written = os.write(fd, data)
    while written < len(data):
        # One call writes at most 2 GiB, and stops short at a full disk; the next one says why.
        written += os.write(fd, memoryview(data)[written:])


def _pread(fd: int, start: int, length: int) -> bytes:
    found = os.pread(fd, length, start)
    if len(found) == length or not found:
        return found
    # One call reads at most 2 GiB and may be interrupted; an empty answer is the end of the file.
    parts = [found]
    read_so_far = len(found)
    while read_so_far < length and parts[-1]:
        parts.append(os.pread(fd, length - read_so_far, start + read_so_far))
        read_so_far += len(parts[-1])
    return b"".join(parts)
