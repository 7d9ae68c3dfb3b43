"""Iceberg against Delta: the same files of the same sizes, so the same rows.

A mirror that is behind our commits is waited for a little: it follows every one. A change by others
keeps it behind until our next commit or upkeep, and rows that are deleted by other files until
those are rewritten: then it equals the snapshot that it mirrors, and the certificate says so.
"""

from typing import Final, NamedTuple

from deltalake import DeltaTable
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Corrupt, Rejected
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.table import delta_changes, delta_log
from lakestream_spark.table.foreign import commit_id_of
from lakestream_spark.verify.pinned import Pinned

_LOOKS: Final = 12
_REST_S: Final = 0.25
_REMEDY: Final = "lakestream maintain --once"


class Mirror(NamedTuple):
    """The version of Delta that was compared; `late` says why it lawfully has other rows."""

    version: int
    late: str | None = None


async def check_mirror(pinned: Pinned, clock: Clock) -> Mirror | None:
    """None for a topic without Delta or without a table."""
    wants_delta = "delta" in TopicConfig.of(pinned.topic.config).table_formats
    table, snapshot = pinned.table, pinned.snapshot
    if not wants_delta or table is None or snapshot is None:
        return None
    log = delta_log.open_log(table)
    waits = bool(delta_changes.files_with_deletes(table, snapshot))
    newest = 0 if waits else _newest_of_ours(table, snapshot)
    for _ in range(_LOOKS):
        if log is not None and _mirrored(log, pinned) >= newest:
            break
        await clock.sleep(_REST_S)
        log = delta_log.open_log(table)
    if log is None:
        raise Corrupt("the topic has no Delta log", root=table.location(), remedy=_REMEDY)
    mirrored = _mirrored(log, pinned)
    while mirrored > (snapshot.sequence_number or 0) and log.version():
        # It has followed a newer commit meanwhile.
        log.load_as_version(log.version() - 1)
        mirrored = _mirrored(log, pinned)
    try:
        delta_changes.live_files(table, snapshot)
    except Rejected as error:
        return Mirror(log.version(), f"it cannot be mirrored: {error.message}")
    behind = _behind(table, snapshot, mirrored)
    if not behind or (newest > mirrored and not waits):
        _compare(table, snapshot, log, mirrored)
        return Mirror(log.version())
    base = table.snapshot_by_id(behind[-1].parent_snapshot_id or 0)
    if base is not None:
        _compare(table, base, log, mirrored)
    return Mirror(log.version(), f"snapshot {behind[-1].snapshot_id} of others is to be mirrored")


def _newest_of_ours(table: Table, snapshot: Snapshot) -> int:
    ours = (s for s in ancestors_of(snapshot, table.metadata) if commit_id_of(s) is not None)
    return next((each.sequence_number or 0 for each in ours), 0)


def _behind(table: Table, snapshot: Snapshot, mirrored: int) -> list[Snapshot]:
    """The snapshots that Delta does not mirror yet, newest first."""
    return [
        each
        for each in ancestors_of(snapshot, table.metadata)
        if (each.sequence_number or 0) > mirrored
    ]


def _mirrored(log: DeltaTable, pinned: Pinned) -> int:
    return delta_log.marks(log, pinned.topic.id).sequence_number or 0


def _compare(table: Table, snapshot: Snapshot, log: DeltaTable, mirrored: int) -> None:
    wanted = delta_changes.live_files(table, snapshot)
    known = delta_changes.files_of(log)
    lacking = sorted(wanted.keys() - known.keys())
    beyond = sorted(known.keys() - wanted.keys())
    other = [path for path in wanted if path in known and known[path].size != wanted[path].size]
    for paths, sentence in (
        (lacking, "Delta lacks files that Iceberg has: a commit of its log is missing"),
        (beyond, "Delta has files that Iceberg has not"),
        (other, "Delta says another size of a file than Iceberg"),
    ):
        if paths:
            raise Corrupt(
                sentence,
                files=len(paths),
                first=paths[0],
                delta_version=log.version(),
                delta_mirrors=mirrored,
                iceberg=snapshot.sequence_number,
                remedy=_REMEDY,
            )
