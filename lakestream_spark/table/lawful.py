"""A table as readers of the stream may see it: as of its newest lawful snapshot.

What always holds: a row that somebody put there without a lawful offset is not served, and one that
somebody deleted lawfully is not either; what was found out about a snapshot is found out once. A
file that is lost is passed over, because none of its rows can be served: the rest still is.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import RedTable
from lakestream_spark.table.foreign import Lineage, commit_id_of, lineage_of, problem_of, stamp_of
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY, ENDS_PROPERTY
from lakestream_spark.table.remedies import Remedies


class _Judged(NamedTuple):
    """The newest lawful snapshot with the ends that go with it."""

    snapshot: Snapshot | None
    stamp: Mapping[str, str]
    """What the properties must say; those that it does not name are right as they are."""
    lost: frozenset[str] = frozenset()
    """Files that are not there, without which it was found."""


class LawfulView:
    """Turns tables into what may be served of them; one for all tables of a catalog."""

    def __init__(self) -> None:
        self._judged: dict[tuple[str, int | None, str | None], _Judged] = {}

    def of(self, table: Table, remedies: Remedies) -> Table:
        """The table, pinned to its newest lawful snapshot with the ends that go with it."""
        current = table.current_snapshot()
        commit_id = table.properties.get(COMMIT_ID_PROPERTY)
        if current is not None and commit_id is not None and commit_id_of(current) == commit_id:
            return _pinned(table, current, stamp_of(current))
        key = (str(table.metadata.table_uuid), table.metadata.current_snapshot_id, commit_id)
        judged = self._judged.get(key)
        if judged is None or any(table.io.new_input(path).exists() for path in judged.lost):
            # A copy of the keys: tables are loaded by several threads.
            for known in [each for each in list(self._judged) if each[0] == key[0]]:
                self._judged.pop(known, None)
            judged = self._judged[key] = _judge(table, remedies)
        return _pinned(table, judged.snapshot, judged.stamp)


def _judge(table: Table, remedies: Remedies) -> _Judged:
    try:
        lineage = lineage_of(table, remedies)
    except RedTable:
        return _newest_of_ours(table)
    lost: set[str] = set()
    lawful = _newest_lawful(table, lineage, lost)
    if lineage.ours is not None:
        return _Judged(lawful, stamp_of(lineage.ours), frozenset(lost))
    if lawful is None and lineage.expired:
        return _newest_of_ours(table)
    # No snapshot tells the ends of our newest commit, but the table's own properties do.
    return _Judged(lawful, {}, frozenset(lost))


def _newest_lawful(table: Table, lineage: Lineage, lost: set[str]) -> Snapshot | None:
    """The newest snapshot whose rows are all lawful; None when there is none.

    `lost` takes the paths of files that are not there.
    """
    lawful = lineage.ours
    if lineage.foreign and problem_of(table, lineage, lineage.foreign[-1], lost) is None:
        return lineage.foreign[-1]
    for snapshot in lineage.foreign:
        if problem_of(table, lineage, snapshot, lost) is not None:
            break
        lawful = snapshot
    return lawful


def _newest_of_ours(table: Table) -> _Judged:
    """Our newest commit that is kept, also when it was rolled back, with its own ends."""
    commit_id = table.properties.get(COMMIT_ID_PROPERTY)
    own = [each for each in table.snapshots() if commit_id_of(each) is not None]
    if not own:
        return _Judged(None, {ENDS_PROPERTY: ""})
    newest = next((each for each in own if commit_id_of(each) == commit_id), own[-1])
    return _Judged(newest, stamp_of(newest))


def _pinned(table: Table, snapshot: Snapshot | None, stamp: Mapping[str, str]) -> Table:
    metadata = table.metadata
    changes: dict[str, object] = {
        "current_snapshot_id": None if snapshot is None else snapshot.snapshot_id,
        "properties": {**metadata.properties, **stamp},
    }
    if snapshot is not None and snapshot.schema_id is not None:
        changes["current_schema_id"] = snapshot.schema_id
    table.metadata = metadata.model_copy(update=changes)
    return table
