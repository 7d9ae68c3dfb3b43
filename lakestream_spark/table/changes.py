"""What changed in a table between two snapshots, as offsets that came and offsets that went.

Only the net change counts: rows that were added and taken away again are neither. Reads no more
than it must: manifests that both snapshots have are skipped, a file that is known to hold a dense
range is not opened, and of the others two columns are read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import LostFile
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.file_offsets import (
    Positions,
    at_positions,
    deleted_positions,
    dense,
    files_of,
    live_rows_of,
    rows_of,
)
from lakestream_spark.table.runs import Run, runs_of

Runs: TypeAlias = Mapping[int, Sequence[Run]]
"""Offsets by partition."""
_Gathered: TypeAlias = dict[int, list[Run]]


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
    came: _Gathered = defaultdict(list)
    went: _Gathered = defaultdict(list)
    for file in files.added:
        with _passing_over(file, lost):
            _gather(came, live_rows_of(io, file, files.gone_now))
    for file in files.removed:
        with _passing_over(file, lost):
            _gather_removed(io, went, file, files.gone_before)
    for file in files.touched:
        with _passing_over(file, lost):
            _gather_touched(io, came, went, file, files.gone_before, files.gone_now)
    return Change(added=came, removed=went)


@contextmanager
def _passing_over(file: DataFile, lost: set[str] | None) -> Iterator[None]:
    try:
        yield
    except LostFile:
        if lost is None:
            raise
        lost.add(file.file_path)


def _gather(into: _Gathered, rows: pa.Table) -> None:
    for partition in pc.unique(rows[PARTITION]).to_pylist():
        own = rows.filter(pc.equal(rows[PARTITION], partition))
        into[partition] += runs_of(own[OFFSET].combine_chunks())


def _gather_removed(io: FileIO, went: _Gathered, file: DataFile, gone: Positions) -> None:
    whole = None if file.file_path in gone else dense(file)
    if whole is None:
        _gather(went, live_rows_of(io, file, gone))
    else:
        went[whole.partition].append(whole.run)


def _gather_touched(
    io: FileIO, came: _Gathered, went: _Gathered, file: DataFile, before: Positions, now: Positions
) -> None:
    """A file that stayed while other rows of it are deleted than before."""
    rows = rows_of(io, file)
    was, is_now = (gone.get(file.file_path, frozenset()) for gone in (before, now))
    _gather(went, at_positions(rows, is_now - was))
    _gather(came, at_positions(rows, was - is_now))


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
