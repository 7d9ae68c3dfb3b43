"""The table's files by metadata alone: all there, none twice, as many rows as there should be.

Exact without opening a data file: paths and sizes from one listing of the table's folder, offsets
and rows from the snapshot's manifests, what should be there from the cells. Of a file that does not
tell its offsets, or has rows of several partitions, as other engines may leave them, two columns
are read.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow.compute as pc
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.history.overlaps import Bounds, overlapping
from lakestream_spark.table.columns import OFFSET, PARTITION, SORT_ORDER
from lakestream_spark.table.file_offsets import (
    ANYTHING,
    HiddenOffsets,
    Positions,
    bounds,
    deleted_positions,
    live_rows_of,
)
from lakestream_spark.table.places import relative
from lakestream_spark.table.runs import Run, without
from lakestream_spark.table.upkeep.folder import TableFolder
from lakestream_spark.verify.pinned import Pinned, reading


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """The rows of a partition in a data file of the snapshot, without those that are deleted."""

    path: str
    location: str
    partition: int
    place: Run
    rows: int
    size: int
    is_sorted: bool
    """Whether the table says that its rows are in offset order."""
    deleted: frozenset[int]
    is_shared: bool = False
    """Whether it has rows of other partitions too, or may have."""


def live_files(pinned: Pinned) -> list[LiveFile]:
    """The files of the pinned snapshot, in offset order; each is there, whole, and once."""
    if pinned.table is None or pinned.snapshot is None:
        return []
    with reading(pinned.table):
        files = sorted(
            _files(pinned.table, pinned.snapshot), key=lambda each: (each.partition, each.place)
        )
        listed = TableFolder(pinned.table).list()
    seen: set[tuple[str, int]] = set()
    for file in files:
        if (file.path, file.partition) in seen:
            _refuse("a data file is in the snapshot twice", file)
        seen.add((file.path, file.partition))
        size = listed.get(file.path) if file.path != file.location else _size(pinned.table, file)
        if size is None:
            _refuse("data loss: a data file of the table is not in the store", file)
        if size != file.size:
            _refuse(f"a data file has {size} bytes, but the table says {file.size}", file)
    return files


def _size(table: Table, file: LiveFile) -> int | None:
    """Of a file outside of the table's folder."""
    found = table.io.new_input(file.location)
    return len(found) if found.exists() else None


def _files(table: Table, snapshot: Snapshot) -> Iterator[LiveFile]:
    manifests = snapshot.manifests(table.io)
    deletes = [
        entry.data_file
        for manifest in manifests
        if manifest.content is ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    gone: Positions = deleted_positions(table.io, deletes)
    for manifest in manifests:
        if manifest.content is ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io):
                yield from _parts(table, entry.data_file, gone)


def _parts(table: Table, file: DataFile, gone: Positions) -> Iterator[LiveFile]:
    """A file by partitions; nearly always it has one, and says so."""
    deleted = gone.get(file.file_path, frozenset())
    whole = LiveFile(
        path=relative(file.file_path, table.location()) or file.file_path,
        location=file.file_path,
        partition=0,
        place=Run(0, 0),
        rows=file.record_count - len(deleted),
        size=file.file_size_in_bytes,
        is_sorted=_is_sorted(file, table),
        deleted=deleted,
    )
    partitions, offsets = bounds(file)
    if partitions.next - partitions.first == 1 and offsets != ANYTHING:
        yield replace(whole, partition=partitions.first, place=offsets)
        return
    try:
        rows = live_rows_of(table.io, file, gone)
    except HiddenOffsets as hidden:
        raise Corrupt(
            f"a data file does not tell its offsets: {hidden}", file=file.file_path
        ) from hidden
    for partition in pc.unique(rows[PARTITION]).to_pylist():
        own = rows.filter(pc.equal(rows[PARTITION], partition))[OFFSET]
        place = Run(pc.min(own).as_py(), pc.max(own).as_py() + 1)
        yield replace(
            whole, partition=partition, place=place, rows=len(own), is_sorted=False, is_shared=True
        )


def _is_sorted(file: DataFile, table: Table) -> bool:
    order = table.sort_orders().get(file.sort_order_id or 0)
    return order is not None and order.fields == SORT_ORDER.fields


def _refuse(sentence: str, file: LiveFile) -> NoReturn:
    raise Corrupt(
        sentence,
        partition=file.partition,
        offsets=f"[{file.place.first}, {file.place.next})",
        file=file.location,
    )


def check_counts(pinned: Pinned, files: Sequence[LiveFile]) -> None:
    """Whether the files have as many rows as there should be, and none lie between them."""
    by_partition: Mapping[int, list[LiveFile]] = defaultdict(list)
    for file in files:
        by_partition[file.partition].append(file)
    covered = pinned.expected.covered
    for partition, place in pinned.places().items():
        if partition not in covered:
            continue
        # Files side by side are counted one by one, so that a difference is found where it is.
        for around, group in overlapping(by_partition[partition], _bounds):
            if around.first >= covered[partition].first:
                _check_group(pinned, Run(around.first, around.last + 1), group)
        room = max(place.first, covered[partition].first)
        files_of_it = [file.place for file in by_partition[partition]]
        between = without([Run(room, max(room, place.next))], files_of_it)
        for gap in between:
            lost = pinned.expected.live(partition, gap)
            if lost:
                raise Corrupt(
                    "data loss: rows that were committed are in no file, and nothing explains it",
                    partition=partition,
                    offsets=f"[{lost[0].first}, {lost[0].next})",
                )


def _bounds(file: LiveFile) -> Bounds:
    return Bounds(file.place.first, file.place.next - 1)


def _check_group(pinned: Pinned, place: Run, group: Sequence[LiveFile]) -> None:
    """Files that overlap, together."""
    expected = pinned.expected.rows_in(group[0].partition, place)
    actual = sum(file.rows for file in group)
    if actual == expected:
        return
    what = "more rows than were committed" if actual > expected else "rows are missing"
    raise Corrupt(
        f"{what}, and nothing explains it",
        partition=group[0].partition,
        offsets=f"[{place.first}, {place.next})",
        expected=expected,
        actual=actual,
        file=group[-1].location,
    )
