"""Delta is one function of the Iceberg snapshot: `mirror` makes the log equal to it.

The Delta table lies at the Iceberg table's root and names the same files. What always holds: a
version of ours holds exactly the files of one Iceberg snapshot, whose sequence number it carries;
a smaller number follows only when the table itself was rolled back; the same call appends, mirrors
merges and deletes, repairs a log that lags, is missing, damaged or was changed by others, and does
nothing when there is nothing to do. Every call blocks; callers run it in a thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from deltalake.transaction import AddAction, RemoveAction
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import Corrupt, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table import delta_changes, delta_log
from lakestream_spark.table.delta_changes import Changes
from lakestream_spark.table.delta_damage import LogFolder
from lakestream_spark.table.delta_files import MirroredFile, remove_action
from lakestream_spark.table.outage import asking

_TRIES: Final = 10


class Outcome(Enum):
    """What a mirror did."""

    MIRRORED = auto()
    UP_TO_DATE = auto()
    HAS_DELETES = auto()
    """Rows of some files are deleted by other files: rewrite those first (`spark.merge`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorResult:
    """What happened, with the numbers of it."""

    outcome: Outcome
    sequence_number: int
    adds: int = 0
    removes: int = 0
    full: bool = False
    """Whether all files of both were compared."""


def mirror(table: Table, topic_id: TopicId) -> MirrorResult:
    """Make Delta equal to the table's current snapshot, unless it is already there or beyond.

    Raises `Unavailable` when the log cannot be read or written, `Rejected` when Delta cannot
    express the table.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return MirrorResult(outcome=Outcome.UP_TO_DATE, sequence_number=0)
    # Again and again from the start: each try looks at the newest log and decides anew.
    for _ in range(_TRIES):
        with asking(table.name()):
            result = _try(table, snapshot, topic_id)
        if result is not None:
            return result
    raise Unavailable("others keep writing to the Delta log", table=table.name())


def _try(table: Table, snapshot: Snapshot, topic_id: TopicId) -> MirrorResult | None:
    """One look and one commit; None when somebody else's commit came between."""
    try:
        log = delta_log.open_log(table)
    except Corrupt:
        LogFolder(table).set_aside()
        return None
    if log is None:
        delta_log.create_log(table)
        return None
    goal = snapshot.sequence_number or 0
    mirrored, own_version = delta_log.marks(log, topic_id)
    is_ours = own_version == log.version()
    if mirrored is not None and _is_there(table, goal, mirrored, is_ours):
        return MirrorResult(outcome=Outcome.UP_TO_DATE, sequence_number=mirrored)
    if delta_changes.files_with_deletes(table, snapshot):
        return MirrorResult(outcome=Outcome.HAS_DELETES, sequence_number=mirrored or 0)
    if delta_log.bring_up_to_date(log, table):
        return None
    changes = delta_changes.since(table, snapshot, mirrored or 0) if is_ours else None
    full = changes is None
    if changes is None:
        changes = delta_changes.between(table, snapshot, log)
    actions = _actions(changes, delta_changes.ends_when_mirrored(table, mirrored), snapshot)
    if not delta_log.commit(log, topic_id, goal, actions):
        return None
    return MirrorResult(
        outcome=Outcome.MIRRORED,
        sequence_number=goal,
        adds=len(changes.adds),
        removes=len(changes.removes),
        full=full,
    )


def _is_there(table: Table, goal: int, mirrored: int, is_ours: bool) -> bool:
    if goal < mirrored:
        # Numbers are not used again: who knows of the mirrored one and is below it was rolled back,
        # who does not has an older view.
        return getattr(table.metadata, "last_sequence_number", 0) < mirrored
    return goal == mirrored and is_ours


def _actions(
    changes: Changes, ends: Mapping[int, int], snapshot: Snapshot
) -> list[AddAction | RemoveAction]:
    at_ms = snapshot.timestamp_ms
    removes = (
        remove_action(path, leaving.partition, leaving.size)
        for path, leaving in changes.removes.items()
    )
    adds = (
        file.add(at_ms=at_ms, is_new=_has_new_rows(file, ends)) for file in changes.adds.values()
    )
    return [*removes, *adds]


def _has_new_rows(file: MirroredFile, ends: Mapping[int, int]) -> bool:
    """Whether a stream that reads Delta has yet to see some of the rows; in doubt it has."""
    return file.offsets is None or file.offsets[1] >= ends.get(file.partition, 0)
