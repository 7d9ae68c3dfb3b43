"""Which offsets a snapshot of a table reaches, and which snapshot reaches an offset.

Pure over what one metadata file says. A snapshot of ours carries the ends of all partitions; one
that others made (a merge, a delete) has the ends of our newest commit below it. What always holds:
where that commit has expired nobody knows the ends, and none are made up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from lakestream_spark.core.errors import NotFound
from lakestream_spark.table.layout import ENDS_PROPERTY, decode_ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A snapshot as a place in the stream: the rows of partition p are those below `ends[p]`."""

    snapshot_id: int
    timestamp_ms: int
    tags: tuple[str, ...]
    ends: Mapping[int, int]
    """The first offset of each partition that is not in the snapshot yet."""


def points(table: Table) -> Sequence[Point]:
    """The snapshots that the table is made of, oldest first, as far as they are kept and their
    ends are known."""
    found = []
    ends: dict[int, int] | None = None
    for snapshot in reversed(list(ancestors_of(table.current_snapshot(), table.metadata))):
        ends = _own_ends(snapshot) or ends
        if ends is None and is_the_first(snapshot):
            ends = {}
        if ends is not None:
            found.append(_point(table, snapshot, ends))
    return found


def ends_of_snapshot(table: Table, snapshot_id: int) -> Point:
    """The snapshot with the ends it reaches; raises `NotFound` when it is not kept, or when our
    commit below it is not."""
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise NotFound("the table keeps no such snapshot", snapshot_id=snapshot_id)
    for below in ancestors_of(snapshot, table.metadata):
        ends = _own_ends(below)
        if ends:
            return _point(table, snapshot, ends)
        if is_the_first(below):
            return _point(table, snapshot, {})
    raise NotFound(
        "nobody knows any more which offsets the snapshot reaches: it was made by others, and the "
        "commit below it has expired; name another snapshot, or an offset",
        snapshot_id=snapshot_id,
    )


def snapshot_named(table: Table, name: str) -> int:
    """The id that the name of a tag or a number stands for; raises `NotFound`."""
    # Tags first: a day such as 20260101 is a name that people give, and no snapshot's id.
    ref = table.refs().get(name)
    if ref is not None:
        return ref.snapshot_id
    if not name.isdecimal():
        raise NotFound("the table has no such tag", tag=name)
    return int(name)


def snapshot_reaching(table: Table, partition: int, offset: int) -> Point | None:
    """The oldest snapshot that has got as far as the offset; None when none has yet.

    Earlier ones may have reached it and be gone: snapshots expire.
    """
    reached = (point for point in points(table) if point.ends.get(partition, 0) > offset)
    return next(reached, None)


def is_the_first(snapshot: Snapshot) -> bool:
    """Of the table: then nothing was committed below it."""
    # An expiry may take a parent's id away, so that its absence alone says nothing.
    return snapshot.parent_snapshot_id is None and (snapshot.sequence_number or 0) <= 1


def _own_ends(snapshot: Snapshot) -> dict[int, int]:
    text = None if snapshot.summary is None else snapshot.summary.additional_properties
    return decode_ends((text or {}).get(ENDS_PROPERTY, ""))


def _point(table: Table, snapshot: Snapshot, ends: Mapping[int, int]) -> Point:
    tags = (
        name
        for name, ref in table.refs().items()
        if ref.snapshot_id == snapshot.snapshot_id and ref.snapshot_ref_type == SnapshotRefType.TAG
    )
    return Point(
        snapshot_id=snapshot.snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        tags=tuple(sorted(tags)),
        ends=ends,
    )
