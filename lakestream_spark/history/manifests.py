"""The data files and deletes of a snapshot, from its manifests, each of which is read once.

What always holds: a new snapshot costs its new manifests only; bounds are those that the engine
which wrote a file told, or else as wide as they can be.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import RedTable
from lakestream_spark.history.overlaps import Bounds
from lakestream_spark.kafka.arrow.layout import Longs
from lakestream_spark.table.columns import ICEBERG_SCHEMA, OFFSET, PARTITION, TIMESTAMP
from lakestream_spark.table.file_offsets import HiddenOffsets, deleted_positions

_PARTITION_ID: Final = ICEBERG_SCHEMA.find_field(PARTITION).field_id
_OFFSET_ID: Final = ICEBERG_SCHEMA.find_field(OFFSET).field_id
_TIMESTAMP_ID: Final = ICEBERG_SCHEMA.find_field(TIMESTAMP).field_id
_LAST_PARTITION: Final = 2**31 - 1
_LAST_OFFSET: Final = 2**63 - 1


class PlannedFile(NamedTuple):
    """A data file as its manifest describes it; all bounds include both of their ends."""

    path: str
    rows: int
    partitions: Bounds
    offsets: Bounds
    newest_micros: int | None
    """No row has a later time; None when the file does not tell, or has rows without a time."""
    size: int = 0
    row_groups: int = 1


class Deletes(NamedTuple):
    """The rows that one delete file deletes, by the path of their data file."""

    positions: Mapping[str, Longs]


class SnapshotFiles(NamedTuple):
    """Everything that is read for a snapshot."""

    data: tuple[PlannedFile, ...]
    deleted: Mapping[str, Longs]
    """Positions of deleted rows, in order, by the path of their data file."""


class ManifestCache:
    """What the manifests of one table say, for as long as its newest snapshot has them."""

    def __init__(self) -> None:
        self._data: dict[str, tuple[PlannedFile, ...]] = {}
        self._deletes: dict[str, tuple[Deletes, ...]] = {}

    def files_of(self, io: FileIO, snapshot: Snapshot) -> SnapshotFiles:
        """Raises `FileNotFoundError` when the snapshot has expired meanwhile."""
        manifests = snapshot.manifests(io)
        self._data = {
            each.manifest_path: self._data.get(each.manifest_path) or _data_files(io, each)
            for each in manifests
            if each.content == ManifestContent.DATA
        }
        self._deletes = {
            each.manifest_path: self._deletes.get(each.manifest_path)
            or _delete_files(io, each, snapshot.snapshot_id)
            for each in manifests
            if each.content == ManifestContent.DELETES
        }
        return SnapshotFiles(
            data=tuple(file for files in self._data.values() for file in files),
            deleted=_joined(each for own in self._deletes.values() for each in own),
        )


def _data_files(io: FileIO, manifest: ManifestFile) -> tuple[PlannedFile, ...]:
    return tuple(
        _planned(entry.data_file)
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
    )


def _delete_files(io: FileIO, manifest: ManifestFile, snapshot_id: int) -> tuple[Deletes, ...]:
    found = []
    for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
        try:
            positions = deleted_positions(io, [entry.data_file])
        except HiddenOffsets as hidden:
            # The newest lawful snapshot has none of these: see `table.lawful`.
            raise RedTable(
                f"the deletes of the table cannot be applied: {hidden}",
                snapshot_id=snapshot_id,
                remedy="rewrite the data files, so that no delete files are left",
            ) from hidden
        arrays = {path: np.array(sorted(own), np.int64) for path, own in positions.items()}
        found.append(Deletes(arrays))
    return tuple(found)


def _joined(deletes: Iterable[Deletes]) -> dict[str, Longs]:
    found: dict[str, Longs] = {}
    for each in deletes:
        for path, positions in each.positions.items():
            known = found.get(path)
            found[path] = positions if known is None else np.union1d(known, positions)
    return found


def _planned(file: DataFile) -> PlannedFile:
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    nulls = (file.null_value_counts or {}).get(_TIMESTAMP_ID)
    newest = _bound(upper, _TIMESTAMP_ID, -1)
    return PlannedFile(
        path=file.file_path,
        rows=file.record_count,
        partitions=Bounds(
            _bound(lower, _PARTITION_ID, 0), _bound(upper, _PARTITION_ID, _LAST_PARTITION)
        ),
        offsets=Bounds(_bound(lower, _OFFSET_ID, 0), _bound(upper, _OFFSET_ID, _LAST_OFFSET)),
        newest_micros=newest if nulls == 0 and _TIMESTAMP_ID in upper else None,
        size=file.file_size_in_bytes,
        row_groups=len(file.split_offsets or [0]),
    )


def _bound(bounds: Mapping[int, bytes], field_id: int, unknown: int) -> int:
    bound = bounds.get(field_id)
    return unknown if bound is None else int.from_bytes(bound, "little", signed=True)
