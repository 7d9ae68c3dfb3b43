"""Which snapshots stay: the newest 100, one of ours for each hour of a day and each day of a month.

What always holds: tags are set on our own snapshots only; our newest snapshot and whatever others
put on top of it are never expired, because a commit is judged by them; what somebody else's tag or
branch names stays. The files of an expired snapshot stay until they are found to be orphans.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots

from lakestream_spark.table.layout import COMMIT_ID_PROPERTY
from lakestream_spark.table.upkeep.policy import SnapshotPolicy

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_HOURLY: Final = "lakestream-hour-"
_DAILY: Final = "lakestream-day-"


class KnownSnapshot(NamedTuple):
    """What the decision needs to know of a snapshot."""

    id: int
    sequence_number: int
    at_ms: int
    is_ours: bool


class SnapshotChanges(NamedTuple):
    """Tags to set (name to snapshot), tags to drop, snapshots to expire."""

    tags: Mapping[str, int]
    drops: tuple[str, ...]
    expired: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.tags or self.drops or self.expired)


def decide(
    snapshots: Sequence[KnownSnapshot], refs: Mapping[str, int], now_ms: int, policy: SnapshotPolicy
) -> SnapshotChanges:
    """Pure: from the snapshots and what names them to what changes."""
    ours = sorted((s for s in snapshots if s.is_ours), key=lambda s: s.sequence_number)
    wanted = _tags(ours, now_ms, policy)
    drops = tuple(name for name in refs if _is_stale(name, now_ms, policy))
    tags = {name: snapshot for name, snapshot in wanted.items() if name not in refs}
    kept = {snapshot for name, snapshot in refs.items() if name not in drops} | set(tags.values())
    order = sorted(snapshots, key=lambda s: -s.sequence_number)
    newest_of_ours = ours[-1].sequence_number if ours else 0
    expired = tuple(
        snapshot.id
        for snapshot in order[policy.newest :]
        if snapshot.id not in kept and snapshot.sequence_number < newest_of_ours
    )
    return SnapshotChanges(tags, drops, expired)


def apply(table: Table, changes: SnapshotChanges) -> bool:
    """As one commit, tried once; False when the table changed meanwhile."""
    # On this object only: what was decided is decided anew on what is there now.
    table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    try:
        with table.transaction() as transaction:
            with ManageSnapshots(transaction) as manage:
                for name, snapshot_id in changes.tags.items():
                    manage.create_tag(snapshot_id, name)
                for name in changes.drops:
                    manage.remove_tag(name)
            if changes.expired:
                with ExpireSnapshots(transaction) as expire:
                    expire.by_ids(list(changes.expired))
    except CommitFailedException:
        return False
    return True


def changes_of(table: Table, now_ms: int, policy: SnapshotPolicy) -> SnapshotChanges:
    known = [_known(snapshot) for snapshot in table.snapshots()]
    refs = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    ours = {
        name
        for name, ref in table.metadata.refs.items()
        if ref.snapshot_ref_type is SnapshotRefType.TAG
    }
    changes = decide(known, refs, now_ms, policy)
    return changes._replace(drops=tuple(name for name in changes.drops if name in ours))


def without_expiry(table: Table, changes: SnapshotChanges, keep_from: int) -> SnapshotChanges:
    """The changes, but snapshots from this sequence number on stay."""
    numbers = {each.snapshot_id: each.sequence_number or 0 for each in table.snapshots()}
    expired = tuple(each for each in changes.expired if numbers[each] < keep_from)
    return changes._replace(expired=expired)


def _known(snapshot: Snapshot) -> KnownSnapshot:
    summary = snapshot.summary
    is_ours = summary is not None and COMMIT_ID_PROPERTY in summary.additional_properties
    number = snapshot.sequence_number or 0
    return KnownSnapshot(snapshot.snapshot_id, number, snapshot.timestamp_ms, is_ours)


def _tags(ours: Iterable[KnownSnapshot], now_ms: int, policy: SnapshotPolicy) -> dict[str, int]:
    """The first of our snapshots in each hour and each day that is still of interest."""
    wanted: dict[str, int] = {}
    for snapshot in ours:
        if _age(snapshot.at_ms, now_ms, _HOUR_MS) < policy.hours:
            wanted.setdefault(f"{_HOURLY}{_name(snapshot.at_ms, '%Y-%m-%dT%H')}", snapshot.id)
        if _age(snapshot.at_ms, now_ms, _DAY_MS) < policy.days:
            wanted.setdefault(f"{_DAILY}{_name(snapshot.at_ms, '%Y-%m-%d')}", snapshot.id)
    return wanted


def _is_stale(name: str, now_ms: int, policy: SnapshotPolicy) -> bool:
    for prefix, form, unit, limit in (
        (_HOURLY, "%Y-%m-%dT%H", _HOUR_MS, policy.hours),
        (_DAILY, "%Y-%m-%d", _DAY_MS, policy.days),
    ):
        if name.startswith(prefix):
            try:
                at = datetime.strptime(name.removeprefix(prefix), form).replace(tzinfo=UTC)
            except ValueError:
                return False
            return _age(int(at.timestamp() * 1000), now_ms, unit) >= limit
    return False


def _age(at_ms: int, now_ms: int, unit: int) -> int:
    return now_ms // unit - at_ms // unit


def _name(at_ms: int, form: str) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)
