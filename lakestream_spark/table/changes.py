"""What changed in a table between two snapshots, as offsets that came and offsets that went.

Only the net change counts: rows that were added and taken away again are neither. Reads no more
than it must: manifests that both snapshots have are skipped, a file that is known to hold a dense
range is not opened, and of the others two columns are read, of several files at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import LostFile
from lakestream_spark.table.file_offsets import (
    Positions,
    at_positions,
    deleted_positions,
    dense,
    files_of,
    live_rows_of,
    rows_of,
)
from lakestream_spark.table.gathered import Gathered, Offsets, Runs, offsets_in

__all__ = ["Change", "FileChanges", "Runs", "file_changes", "net_change", "offsets_changed"]

_CameAndWent: TypeAlias = tuple[Offsets, Offsets]
_Job: TypeAlias = tuple[DataFile, Callable[[], _CameAndWent]]
_FILES_AT_ONCE: Final = 8
"""More than cores: nearly all of it is waiting for a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The offsets of rows that came and of rows that went."""

    added: Runs
    removed: Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """Data files that came, that went, and that stayed while other rows of them are deleted."""

    added: Sequence[DataFile]
    removed: Sequence[DataFile]
    touched: Sequence[DataFile]
    gone_before: Positions
    gone_now: Positions


def net_change(
    io: FileIO, base: Snapshot | None, current: Snapshot, lost: set[str] | None = None
) -> Change:
    """From the base, whose offsets are distinct, to the current snapshot.

    Raises `HiddenOffsets` when a file that came, or a delete, cannot be judged; `lost` as below.
    """
    with files_of(current):
        return offsets_changed(io, file_changes(io, base, current), lost)


def file_changes(io: FileIO, base: Snapshot | None, current: Snapshot) -> FileChanges:
    """From the base to the current snapshot; raises `HiddenOffsets` for a delete by equality."""
    before, now = _manifests(io, base), _manifests(io, current)
    old = _files(io, _only(before, now), ManifestContent.DATA)
    new = _files(io, _only(now, before), ManifestContent.DATA)
    gone_before = deleted_positions(io, _files(io, before.values(), ManifestContent.DELETES))
    gone_now = deleted_positions(io, _files(io, now.values(), ManifestContent.DELETES))
    added, removed = _difference(new, old), _difference(old, new)
    changed = {file.file_path for file in (*added, *removed)}
    touched = _touched(io, now.values(), gone_before, gone_now)
    return FileChanges(
        added=added,
        removed=removed,
        touched=[file for file in touched if file.file_path not in changed],
        gone_before=gone_before,
        gone_now=gone_now,
    )


def offsets_changed(io: FileIO, files: FileChanges, lost: set[str] | None = None) -> Change:
    """The offsets in files that changed.

    Raises `LostFile` for one that is not there, unless `lost` takes its path: then none of its rows
    are among the offsets.
    """
    came, went = Gathered(), Gathered()
    jobs: list[_Job] = [
        *((file, partial(_added, io, file, files)) for file in files.added),
        *((file, partial(_removed, io, file, files)) for file in files.removed),
        *((file, partial(_touched_rows, io, file, files)) for file in files.touched),
    ]
    pool = ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="offsets")
    try:
        for file, found in [(file, pool.submit(read)) for file, read in jobs]:
            with _passing_over(file, lost):
                added, removed = found.result()
                came.add(added)
                went.add(removed)
    finally:
        pool.shutdown(cancel_futures=True)
    return Change(added=came.runs(), removed=went.runs())


@contextmanager
def _passing_over(file: DataFile, lost: set[str] | None) -> Iterator[None]:
    try:
        yield
    except LostFile:
        if lost is None:
            raise
        lost.add(file.file_path)


def _added(io: FileIO, file: DataFile, files: FileChanges) -> _CameAndWent:
    # Always read: bounds of others do not tell whether an offset is in the file twice.
    return offsets_in(live_rows_of(io, file, files.gone_now)), {}


def _removed(io: FileIO, file: DataFile, files: FileChanges) -> _CameAndWent:
    whole = None if file.file_path in files.gone_before else dense(file)
    if whole is not None:
        return {}, {whole.partition: [whole.run]}
    return {}, offsets_in(live_rows_of(io, file, files.gone_before))


def _touched_rows(io: FileIO, file: DataFile, files: FileChanges) -> _CameAndWent:
    """Of a file that stayed while other rows of it are deleted than before."""
    rows = rows_of(io, file)
    positions = (files.gone_before, files.gone_now)
    was, is_now = (gone.get(file.file_path, frozenset()) for gone in positions)
    came, went = (at_positions(rows, own) for own in (was - is_now, is_now - was))
    return offsets_in(came), offsets_in(went)


def _manifests(io: FileIO, snapshot: Snapshot | None) -> dict[str, ManifestFile]:
    return {} if snapshot is None else {m.manifest_path: m for m in snapshot.manifests(io)}


def _only(
    manifests: Mapping[str, ManifestFile], others: Mapping[str, ManifestFile]
) -> list[ManifestFile]:
    return [manifest for path, manifest in manifests.items() if path not in others]


def _files(
    io: FileIO, manifests: Iterable[ManifestFile], content: ManifestContent
) -> list[DataFile]:
    return [
        entry.data_file
        for manifest in manifests
        if manifest.content == content
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
    ]


def _difference(files: Sequence[DataFile], others: Sequence[DataFile]) -> list[DataFile]:
    """The files that the others do not have; one that is listed twice is two files."""
    left = Counter(file.file_path for file in others)
    found = []
    for file in files:
        if left[file.file_path]:
            left[file.file_path] -= 1
        else:
            found.append(file)
    return found


def _touched(
    io: FileIO, manifests: Iterable[ManifestFile], before: Positions, now: Positions
) -> list[DataFile]:
    """Data files of the current snapshot of which other rows are deleted than before."""
    paths = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
    if not paths:
        return []
    # A delete may outlive its data file: only rows that are there can come or go.
    return [f for f in _files(io, manifests, ManifestContent.DATA) if f.file_path in paths]
