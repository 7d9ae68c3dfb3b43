"""What Delta must add and remove to equal an Iceberg snapshot.

Two ways to the same answer. The short one follows the snapshots since the mirrored one and reads
only the manifests they added; the full one compares all files of both. In doubt it is the full one:
a snapshot in between has expired, history was rolled back, or Delta was written to by others.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.manifest import (
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.table.columns import PARTITION
from lakestream_spark.table.delta_files import MirroredFile, mirrored_file, relative_path
from lakestream_spark.table.layout import ENDS_PROPERTY, decode_ends

_LONGEST_CHAIN: Final = 100
_FILE_PATH: Final = "file_path"


class Leaving(NamedTuple):
    """A file that Delta has and Iceberg has not."""

    partition: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """By path: what is to be added and what is to be removed."""

    adds: Mapping[str, MirroredFile] = field(default_factory=dict)
    removes: Mapping[str, Leaving] = field(default_factory=dict)


def since(table: Table, snapshot: Snapshot, mirrored: int) -> Changes | None:
    """The short way from the snapshot with that sequence number; None when it cannot be known."""
    chain = _chain(table, snapshot, mirrored)
    if chain is None:
        return None
    adds: dict[str, MirroredFile] = {}
    removes: dict[str, Leaving] = {}
    for step in chain:
        for entry, spec in _entries_added_by(step, table):
            file = mirrored_file(entry, table, spec)
            if entry.status is ManifestEntryStatus.ADDED:
                if removes.pop(file.path, None) is None:
                    adds[file.path] = file
            elif adds.pop(file.path, None) is None:
                removes[file.path] = Leaving(file.partition, file.size)
    return Changes(adds=adds, removes=removes)


def between(table: Table, snapshot: Snapshot, log: DeltaTable) -> Changes:
    """The full difference."""
    wanted = live_files(table, snapshot)
    known = files_of(log)
    return Changes(
        adds={path: file for path, file in wanted.items() if path not in known},
        removes={path: leaving for path, leaving in known.items() if path not in wanted},
    )


def live_files(table: Table, snapshot: Snapshot) -> dict[str, MirroredFile]:
    """Every data file of the snapshot, by relative path."""
    specs = table.specs()
    files = (
        mirrored_file(entry, table, specs[manifest.partition_spec_id])
        for manifest in snapshot.manifests(table.io)
        if manifest.content is ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
    )
    return {file.path: file for file in files}


def files_of(log: DeltaTable) -> dict[str, Leaving]:
    """Every file of the Delta table."""
    actions = pa.table(log.get_add_actions(flatten=True))
    columns = ("path", f"partition.{PARTITION}", "size_bytes")
    rows = zip(*(actions[name].to_pylist() for name in columns), strict=True)
    return {path: Leaving(partition, size) for path, partition, size in rows}


def ends_when_mirrored(table: Table, mirrored: int | None) -> Mapping[int, int]:
    """The ends of the stream up to which Delta's readers were given rows; none when unknown."""
    if mirrored is None:
        return {}
    ours = [
        (snapshot.sequence_number or 0, snapshot.summary[ENDS_PROPERTY])
        for snapshot in table.snapshots()
        if snapshot.summary and ENDS_PROPERTY in snapshot.summary
    ]
    return decode_ends(max((own for own in ours if own[0] <= mirrored), default=(0, ""))[1] or "")


def files_with_deletes(table: Table, snapshot: Snapshot) -> frozenset[str]:
    """Paths of data files some rows of which are deleted by other files; Delta cannot say that.

    An equality delete may touch any file, so it is named itself.
    """
    entries = [
        entry
        for manifest in snapshot.manifests(table.io)
        if manifest.content is ManifestContent.DELETES and _is_live(manifest)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    if not entries:
        return frozenset()
    named = {path for entry in entries for path in _named_by(entry, table)}
    others = {e.data_file.file_path for e in entries if not _is_positional(e)}
    live = live_files(table, snapshot)
    return frozenset(others | {path for path in named if relative_path(path, table) in live})


def _chain(table: Table, snapshot: Snapshot, mirrored: int) -> list[Snapshot] | None:
    """The snapshots after the mirrored one, oldest first."""
    chain: list[Snapshot] = []
    step: Snapshot | None = snapshot
    while step is not None and (step.sequence_number or 0) > mirrored:
        chain.append(step)
        parent = step.parent_snapshot_id
        step = None if parent is None else table.snapshot_by_id(parent)
        if len(chain) > _LONGEST_CHAIN:
            return None
    if step is None or step.sequence_number != mirrored:
        return None
    return chain[::-1]


def _entries_added_by(
    snapshot: Snapshot, table: Table
) -> Iterator[tuple[ManifestEntry, PartitionSpec]]:
    """What the snapshot itself added and deleted."""
    specs = table.specs()
    for manifest in snapshot.manifests(table.io):
        own = manifest.added_snapshot_id == snapshot.snapshot_id
        if not own or manifest.content is not ManifestContent.DATA:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.status is not ManifestEntryStatus.EXISTING:
                yield entry, specs[manifest.partition_spec_id]


def _is_live(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def _is_positional(entry: ManifestEntry) -> bool:
    return entry.data_file.content is DataFileContent.POSITION_DELETES


def _named_by(entry: ManifestEntry, table: Table) -> Iterable[str]:
    if not _is_positional(entry):
        return ()
    with table.io.new_input(entry.data_file.file_path).open() as stream:
        paths = pq.read_table(stream, columns=[_FILE_PATH])[_FILE_PATH]
    return [str(path) for path in paths.unique().to_pylist()]
