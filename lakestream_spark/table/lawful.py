"""A table as readers of the stream may see it: as of its newest lawful snapshot.

What always holds: a row that somebody put there without a lawful offset is not served, and one that
somebody deleted lawfully is not either; what was found out about a snapshot is found out once. A
file that is lost is passed over, because none of its rows can be served: the rest still is.
"""

from typing import NamedTuple

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import RedTable
from lakestream_spark.table.foreign import commit_id_of, lineage_of, problem_of, stamp_of
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY
from lakestream_spark.table.remedies import Remedies


class _Judged(NamedTuple):
    """The newest lawful snapshot, found without the files that are lost."""

    snapshot: Snapshot | None
    lost: frozenset[str]


class LawfulView:
    """Turns tables into what may be served of them; one for all tables of a catalog."""

    def __init__(self) -> None:
        self._judged: dict[tuple[str, int | None, str | None], _Judged] = {}

    def of(self, table: Table, remedies: Remedies) -> Table:
        """The table, pinned to its newest lawful snapshot with the ends that go with it."""
        current = table.current_snapshot()
        commit_id = table.properties.get(COMMIT_ID_PROPERTY)
        if current is not None and commit_id is not None and commit_id_of(current) == commit_id:
            return _pinned(table, current, current)
        key = (str(table.metadata.table_uuid), table.metadata.current_snapshot_id, commit_id)
        judged = self._judged.get(key)
        if judged is None or any(table.io.new_input(path).exists() for path in judged.lost):
            # A copy of the keys: tables are loaded by several threads.
            for known in [each for each in list(self._judged) if each[0] == key[0]]:
                self._judged.pop(known, None)
            lost: set[str] = set()
            found = newest_lawful(table, remedies, lost)
            judged = self._judged[key] = _Judged(found, frozenset(lost))
        return _pinned(table, judged.snapshot, _ours(table))


def newest_lawful(table: Table, remedies: Remedies, lost: set[str]) -> Snapshot | None:
    """The newest snapshot whose rows are all lawful; None when there is none.

    `lost` takes the paths of files that are not there.
    """
    try:
        lineage = lineage_of(table, remedies)
    except RedTable:
        return _ours(table)
    lawful = lineage.ours
    if lineage.foreign and problem_of(table, lineage, lineage.foreign[-1], lost) is None:
        return lineage.foreign[-1]
    for snapshot in lineage.foreign:
        if problem_of(table, lineage, snapshot, lost) is not None:
            break
        lawful = snapshot
    return lawful


def _ours(table: Table) -> Snapshot | None:
    """The snapshot of our newest commit, also when it was rolled back."""
    commit_id = table.properties.get(COMMIT_ID_PROPERTY)
    own = [each for each in table.snapshots() if commit_id_of(each) is not None]
    return next((each for each in own if commit_id_of(each) == commit_id), own[-1] if own else None)


def _pinned(table: Table, snapshot: Snapshot | None, ours: Snapshot | None) -> Table:
    metadata = table.metadata
    stamp = {} if ours is None else stamp_of(ours)
    changes: dict[str, object] = {
        "current_snapshot_id": None if snapshot is None else snapshot.snapshot_id,
        "properties": {**metadata.properties, **stamp},
    }
    if snapshot is not None and snapshot.schema_id is not None:
        changes["current_schema_id"] = snapshot.schema_id
    table.metadata = metadata.model_copy(update=changes)
    return table
