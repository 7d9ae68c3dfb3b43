"""The table's files as Delta names them: relative paths, one partition each, with statistics.

What always holds: statistics never claim less than the file holds (a time is rounded outwards to
milliseconds, and left out when the calendar cannot hold it), so that no reader skips a row.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from deltalake.transaction import AddAction, RemoveAction
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, PrimitiveType, TimestamptzType

from lakestream_spark.core.errors import Rejected
from lakestream_spark.table.columns import ICEBERG_SCHEMA, OFFSET, PARTITION, TIMESTAMP
from lakestream_spark.table.places import relative

_PARTITION_ID: Final = ICEBERG_SCHEMA.find_field(PARTITION).field_id
_OFFSET_ID: Final = ICEBERG_SCHEMA.find_field(OFFSET).field_id
_TIMESTAMP_ID: Final = ICEBERG_SCHEMA.find_field(TIMESTAMP).field_id
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME_MS: Final = 253_370_764_800_000
"""The year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredFile:
    """A data file of an Iceberg snapshot; `path` is relative to the table's root."""

    path: str
    partition: int
    size: int
    rows: int
    offsets: tuple[int, int] | None
    micros: tuple[int, int] | None
    nulls: Mapping[str, int]

    def add(self, *, at_ms: int, is_new: bool) -> AddAction:
        """`is_new` is false when Delta's readers have been given all of its rows before."""
        return AddAction(
            path=self.path,
            size=self.size,
            partition_values={PARTITION: str(self.partition)},
            modification_time=at_ms,
            data_change=is_new,
            stats=json.dumps(self._statistics(), separators=(",", ":")),
        )

    def _statistics(self) -> dict[str, Any]:
        lowest: dict[str, int | str] = {}
        highest: dict[str, int | str] = {}
        if self.offsets is not None:
            lowest[OFFSET], highest[OFFSET] = self.offsets
        times = None if self.micros is None else _iso(*self.micros)
        if times is not None:
            lowest[TIMESTAMP], highest[TIMESTAMP] = times
        return {
            "numRecords": self.rows,
            "minValues": lowest,
            "maxValues": highest,
            "nullCount": dict(self.nulls),
        }


def remove_action(path: str, partition: int, size: int) -> RemoveAction:
    # Never a data change: an append-only table refuses those, and only we take files out of it.
    # Not deleted before the calendar ends: VACUUM LITE deletes what the log says was removed long
    # enough ago, wherever it lies, and Iceberg's older snapshots still need it.
    return RemoveAction(
        path=path,
        data_change=False,
        deletion_timestamp=_END_OF_TIME_MS,
        size=size,
        partition_values={PARTITION: str(partition)},
    )


def mirrored_file(entry: ManifestEntry, table: Table, spec: PartitionSpec) -> MirroredFile:
    """Raises `Rejected` for a file that Delta cannot name below the table's root."""
    file = entry.data_file
    nulls = file.null_value_counts or {}
    return MirroredFile(
        path=relative_path(file.file_path, table),
        partition=_partition(file, spec),
        size=file.file_size_in_bytes,
        rows=file.record_count,
        offsets=_bounds(file, _OFFSET_ID, LongType()),
        micros=_bounds(file, _TIMESTAMP_ID, TimestamptzType()),
        nulls={
            name: nulls[field_id]
            for name, field_id in ((OFFSET, _OFFSET_ID), (TIMESTAMP, _TIMESTAMP_ID))
            if field_id in nulls
        },
    )


def relative_path(path: str, table: Table) -> str:
    below = relative(path, table.location())
    if below is None:
        raise Rejected(
            "a data file lies outside the table's root, where Delta cannot name it; "
            "rewrite the table's files",
            file=path,
            root=table.location(),
        )
    return below


def _partition(file: DataFile, spec: PartitionSpec) -> int:
    for position, field in enumerate(spec.fields):
        if field.source_id == _PARTITION_ID and isinstance(field.transform, IdentityTransform):
            return int(file.partition[position])
    bounds = _bounds(file, _PARTITION_ID, IntegerType())
    if bounds is None or bounds[0] != bounds[1]:
        raise Rejected(
            "a data file may hold rows of several partitions, which Delta cannot say; "
            "rewrite the table's files",
            file=file.file_path,
        )
    return bounds[0]


def _bounds(file: DataFile, field_id: int, kind: PrimitiveType) -> tuple[int, int] | None:
    lower = (file.lower_bounds or {}).get(field_id)
    upper = (file.upper_bounds or {}).get(field_id)
    if lower is None or upper is None:
        return None
    first, last = (from_bytes(kind, bound) for bound in (lower, upper))
    return int(first), int(last)


def _iso(lowest: int, highest: int) -> tuple[str, str] | None:
    """Both times to the millisecond, the later one upwards; None beyond the calendar."""
    try:
        times = [
            _EPOCH + timedelta(milliseconds=ms) for ms in (lowest // 1000, -(-highest // 1000))
        ]
    except OverflowError:
        return None
    first, last = (f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z" for time in times)
    return first.zfill(24), last.zfill(24)
