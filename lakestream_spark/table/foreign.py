"""Changes of a table by others: lawful, or the table is red.

A change is judged by its offsets: those of rows that came must be distinct and among those of rows
that went, so a rewrite, a delete and an update that keeps offsets are lawful, an insert is not.
What always holds: what others did between two commits of ours was judged before the second; a
commit with nothing foreign before it reads no manifest for this.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from lakestream_spark.core.errors import Corrupt, RedTable
from lakestream_spark.table import earlier
from lakestream_spark.table.changes import Change, Runs, net_change
from lakestream_spark.table.file_offsets import HiddenOffsets
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY, ENDS_PROPERTY, decode_ends
from lakestream_spark.table.remedies import Remedies
from lakestream_spark.table.runs import Run, first_outside, first_repeated
from lakestream_spark.table.shape import check_shape


class Finding(NamedTuple):
    """The first offset that must not be where it is."""

    partition: int
    offset: int
    repeated: bool

    def __str__(self) -> str:
        what = "is there twice" if self.repeated else "was not there before"
        return f"offset {self.offset} of partition {self.partition} {what}"


def judge(change: Change) -> Finding | None:
    """The first offset that came and was there already, or is none that went; None if lawful."""
    for partition, runs in sorted(change.added.items()):
        offset = first_repeated(runs)
        if offset is not None:
            return Finding(partition, offset, repeated=True)
        offset = first_outside(runs, change.removed.get(partition, ()))
        if offset is not None:
            return Finding(partition, offset, repeated=False)
    return None


class Lineage(NamedTuple):
    """Our newest commit and the snapshots that others put on top of it, oldest first."""

    ours: Snapshot | None
    foreign: tuple[Snapshot, ...]
    expired: bool
    """The snapshot of our newest commit is gone: rows are judged by the ends alone."""


def check_foreign_changes(table: Table, remedies: Remedies) -> None:
    """Raises `RedTable` when nothing may be appended to the table as it is."""
    check_shape(table, remedies)
    lineage = lineage_of(table, remedies)
    _check_numbers(table, remedies)
    if not lineage.foreign:
        return
    if problem_of(table, lineage, lineage.foreign[-1]) is None:
        return
    for below, snapshot in _upwards(lineage):
        problem = problem_of(table, lineage, snapshot)
        if problem is not None:
            _refuse(problem, snapshot, below, remedies)


def lineage_of(table: Table, remedies: Remedies) -> Lineage:
    """Walk from the current snapshot down to our newest commit; raises `RedTable` if not there."""
    commit_id = table.properties.get(COMMIT_ID_PROPERTY)
    foreign: list[Snapshot] = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if commit_id is not None and commit_id_of(snapshot) == commit_id:
            _check_ends(table, snapshot, remedies)
            return Lineage(snapshot, tuple(reversed(foreign)), expired=False)
        foreign.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
        if parent is not None and snapshot is None:
            break
    return _without_our_commit(table, foreign, remedies)


def _without_our_commit(table: Table, foreign: list[Snapshot], remedies: Remedies) -> Lineage:
    commit_id = table.properties.get(COMMIT_ID_PROPERTY)
    ours = next((s for s in reversed(table.snapshots()) if commit_id_of(s) is not None), None)
    if commit_id is None:
        if ours is None:
            return Lineage(None, tuple(reversed(foreign)), expired=False)
        raise RedTable(
            f"somebody removed the table property {COMMIT_ID_PROPERTY}",
            snapshot_id=table.metadata.current_snapshot_id,
            remedy=remedies.set_properties(stamp_of(ours)),
        )
    mine = next((s for s in table.snapshots() if commit_id_of(s) == commit_id), None)
    if mine is None and foreign and not any(_is_of_other_ends(s, table) for s in foreign):
        # Rows of ours are still there, perhaps; the offsets tell.
        return Lineage(None, tuple(reversed(foreign)), expired=True)
    if mine is None:
        remedy = remedies.restore(earlier.in_log(table, lambda found: _holds(found, commit_id)))
    else:
        remedy = remedies.set_current(mine.snapshot_id)
    raise RedTable(
        "somebody rolled the table back, or put other contents into it: our newest commit is not "
        "below its current snapshot",
        snapshot_id=table.metadata.current_snapshot_id,
        remedy=remedy,
    )


def _is_of_other_ends(snapshot: Snapshot, table: Table) -> bool:
    """Whether it was made before our newest commit, which expired: then that was rolled back.

    In a lawful expiry the walk down ends at the missing commit, above all that came before it.
    """
    if commit_id_of(snapshot) is not None:
        return True
    ends = snapshot.summary and snapshot.summary.additional_properties.get(ENDS_PROPERTY)
    return ends is not None and ends != table.properties.get(ENDS_PROPERTY)


def _holds(metadata: TableMetadata, commit_id: str) -> bool:
    """Whether the commit is one that the metadata's current snapshot is made of."""
    below = ancestors_of(metadata.current_snapshot(), metadata)
    return any(commit_id_of(snapshot) == commit_id for snapshot in below)


def _check_ends(table: Table, ours: Snapshot, remedies: Remedies) -> None:
    stamp = stamp_of(ours)
    if table.properties.get(ENDS_PROPERTY) != stamp[ENDS_PROPERTY]:
        raise RedTable(
            f"somebody changed the table property {ENDS_PROPERTY}",
            snapshot_id=ours.snapshot_id,
            remedy=remedies.set_properties(stamp),
        )


def _check_numbers(table: Table, remedies: Remedies) -> None:
    """Where no snapshot of ours tells what the ends should be."""
    try:
        decode_ends(table.properties.get(ENDS_PROPERTY, ""))
    except Corrupt as error:
        raise RedTable(
            f"somebody changed the table property {ENDS_PROPERTY}: {error}",
            snapshot_id=table.metadata.current_snapshot_id,
            remedy=remedies.restore(earlier.in_log(table, _has_ends)),
        ) from error


def _has_ends(metadata: TableMetadata) -> bool:
    try:
        decode_ends(metadata.properties.get(ENDS_PROPERTY, ""))
    except Corrupt:
        return False
    return True


def problem_of(
    table: Table, lineage: Lineage, snapshot: Snapshot, lost: set[str] | None = None
) -> Finding | HiddenOffsets | None:
    """What is wrong with the table as of this snapshot.

    Raises `LostFile` for a file that is not there, unless `lost` takes its path.
    """
    try:
        change = net_change(table.io, lineage.ours, snapshot, lost)
    except HiddenOffsets as hidden:
        return hidden
    if lineage.expired:
        change = Change(added=change.added, removed=_below_ends(table))
    return judge(change)


def _below_ends(table: Table) -> Runs:
    ends = decode_ends(table.properties.get(ENDS_PROPERTY, ""))
    return {partition: [Run(0, end)] for partition, end in ends.items() if end}


def _upwards(lineage: Lineage) -> Iterator[tuple[Snapshot | None, Snapshot]]:
    """Each foreign snapshot with the one below it, oldest first."""
    below = lineage.ours
    for snapshot in lineage.foreign:
        yield below, snapshot
        below = snapshot


def _refuse(
    problem: Finding | HiddenOffsets, snapshot: Snapshot, below: Snapshot | None, remedies: Remedies
) -> None:
    """Raise what a person needs: which snapshot, what is wrong with it, and what mends it."""
    operation = snapshot.summary.operation.value if snapshot.summary else "change"
    if isinstance(problem, HiddenOffsets) and problem.by_equality:
        remedy = remedies.apply_deletes()
    elif below is None:
        remedy = remedies.empty()
    else:
        remedy = remedies.roll_back(below.snapshot_id)
    raise RedTable(
        f"somebody's {operation} is no lawful change of a stream: {problem}",
        snapshot_id=snapshot.snapshot_id,
        remedy=remedy,
    )


def commit_id_of(snapshot: Snapshot) -> str | None:
    """Of a snapshot of ours; None for one of others."""
    summary = snapshot.summary
    return None if summary is None else summary.additional_properties.get(COMMIT_ID_PROPERTY)


def stamp_of(ours: Snapshot) -> dict[str, str]:
    """What a snapshot of ours says of itself, as the table's properties say it of the newest."""
    assert ours.summary is not None
    properties = ours.summary.additional_properties
    return {key: properties[key] for key in (ENDS_PROPERTY, COMMIT_ID_PROPERTY)}
