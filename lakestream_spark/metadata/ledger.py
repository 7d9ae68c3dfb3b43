"""Which WAL segments are referenced, by how much, and whose writers are fenced.

What always holds: a segment is reported for deletion only when no extent points at it, or when it
was never committed and its writer's epoch is known to be fenced. An epoch this store never handed
out belongs to a bucket that is newer than the store: its segments are nobody's to delete.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.ids import BrokerId, SegmentId, TopicId, TopicPartition
from lakestream_spark.metadata.database import (
    BIGINT,
    INT,
    Database,
    Execute,
    Fetch,
    FetchMany,
    Row,
    Rows,
    Transaction,
)
from lakestream_spark.metadata.extents import LOCATION, location
from lakestream_spark.metadata.partitions import PartitionIds, lock_partitions
from lakestream_spark.metadata.references import (
    References,
    change_references,
    insert_segment,
    repoint_extents,
)
from lakestream_spark.metadata.writers import answered, claim
from lakestream_spark.wal.ports import LiveExtent, MovedExtent, ReclaimCandidate
from lakestream_spark.wal.receipt import SegmentReceipt
from lakestream_spark.wal.segment import StoredSegment

_CANDIDATE: Final = (
    "SELECT broker_id, broker_epoch, n, profile, size, live_bytes, created_ms FROM segments "
)
_IDENTITY: Final = {"broker_id": INT, "broker_epoch": BIGINT, "n": BIGINT}
_BY_IDENTITY: Final = (
    "FROM segments s WHERE s.broker_id = r.broker_id "
    "AND s.broker_epoch = r.broker_epoch AND s.n = r.n"
)
_EXTENT_KEY: Final = {"partition_id": BIGINT, "base_offset": BIGINT, **_IDENTITY}


class SqlSegmentLedger:
    """The WAL's `SegmentLedger` port on a `Database`."""

    def __init__(self, database: Database, ids: PartitionIds, clock: Clock) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock

    async def unreferenced(
        self, profile: str, *, before_ms: int, limit: int
    ) -> list[ReclaimCandidate]:
        return await self._database.read(_unreferenced(profile, before_ms, limit))

    async def forget(self, segment_ids: list[SegmentId]) -> None:
        await self._database.run(_forget(segment_ids))

    async def orphans(
        self,
        profile: str,  # noqa: ARG002 - names the bucket; identities are unique in all of them
        found: list[SegmentId],
    ) -> list[SegmentId]:
        return await self._database.read(_orphans(found))

    async def mostly_dead(
        self, profile: str, *, before_ms: int, max_live_share: float, limit: int
    ) -> list[ReclaimCandidate]:
        return await self._database.read(_mostly_dead(profile, before_ms, max_live_share, limit))

    async def live_extents(self, segment_ids: list[SegmentId]) -> list[LiveExtent]:
        return await self._database.read(_live_extents(segment_ids))

    async def repoint(self, new: StoredSegment, moved: list[MovedExtent]) -> None:
        await self._database.run(self._repoint(new, moved, self._clock.wall_ms()))

    def _repoint(
        self, new: StoredSegment, moved: list[MovedExtent], now_ms: int
    ) -> Transaction[None]:
        done = yield from claim(new.id)
        if done is not None:
            return
        ids = yield from self._ids.of([extent.partition for extent in moved])
        places = {
            (row_id, extent.base_offset, extent.old): extent.position
            for row_id, extent in zip(ids, moved, strict=True)
            if row_id is not None
        }
        # Before the extents are read: a table end that moves meanwhile forgets some of them.
        locked = yield from lock_partitions(sorted({row_id for row_id, _, _ in places}))
        known = {row[0] for row in locked}
        rows = yield from _extents_in(sorted(place for place in places if place[0] in known))
        new_row = yield from insert_segment(new, _references(rows), now_ms)
        yield from repoint_extents(
            new_row, sorted((row[0], row[1], places[row[0], row[1], _old(row)]) for row in rows)
        )
        taken: dict[int, list[Row]] = {}
        for row in rows:
            taken.setdefault(row[3], []).append(row)
        changes = {segment: _references(own) for segment, own in taken.items()}
        yield from change_references(
            {segment: References(-own.extents, -own.bytes) for segment, own in changes.items()},
            now_ms,
        )
        yield from answered(new.id, SegmentReceipt(new.id.n, ()))


def _references(rows: Rows) -> References:
    return References(len(rows), sum(row[2] for row in rows))


def _old(row: Row) -> SegmentId:
    return _segment_id(row[4:])


def _candidates(rows: Rows) -> list[ReclaimCandidate]:
    return [ReclaimCandidate(_segment_id(row), *row[3:]) for row in rows]


def _segment_id(row: Sequence[int]) -> SegmentId:
    return SegmentId(BrokerId(row[0]), row[1], row[2])


def _unreferenced(profile: str, before_ms: int, limit: int) -> Transaction[list[ReclaimCandidate]]:
    rows = yield Fetch(
        f"{_CANDIDATE} WHERE profile = $1 AND unreferenced_ms IS NOT NULL "
        "AND unreferenced_ms < $2 ORDER BY unreferenced_ms, id LIMIT $3",
        (profile, before_ms, limit),
    )
    return _candidates(rows)


def _mostly_dead(
    profile: str, before_ms: int, max_live_share: float, limit: int
) -> Transaction[list[ReclaimCandidate]]:
    rows = yield Fetch(
        f"{_CANDIDATE} WHERE profile = $1 AND created_ms < $2 AND live_bytes > 0 "
        "AND live_bytes <= $3::float8 * size ORDER BY created_ms, id LIMIT $4",
        (profile, before_ms, max_live_share, limit),
    )
    return _candidates(rows)


def _forget(segment_ids: list[SegmentId]) -> Transaction[None]:
    rows = yield FetchMany(
        f"SELECT s.id {_BY_IDENTITY} AND s.live_extents = 0", _IDENTITY, segment_ids
    )
    ids = sorted(row[0] for row in rows)
    yield Execute(
        "SELECT id FROM segments WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE", (ids,)
    )
    yield Execute("DELETE FROM segments WHERE id = ANY($1::bigint[]) AND live_extents = 0", (ids,))


def _orphans(found: list[SegmentId]) -> Transaction[list[SegmentId]]:
    epochs = sorted({segment_id.broker_epoch for segment_id in found})
    # The fence is looked at before the rows: what is not there afterwards never will be.
    over = yield Fetch(
        "SELECT broker_id, epoch FROM epochs WHERE epoch = ANY($1::bigint[])", (epochs,)
    )
    fenced = {tuple(row) for row in over}
    suspects = [segment_id for segment_id in found if segment_id[:2] in fenced]
    rows = yield FetchMany(
        f"SELECT s.broker_id, s.broker_epoch, s.n {_BY_IDENTITY}", _IDENTITY, suspects
    )
    committed = {tuple(row) for row in rows}
    return [segment_id for segment_id in suspects if segment_id not in committed]


def _live_extents(segment_ids: list[SegmentId]) -> Transaction[list[LiveExtent]]:
    # The index has no order by segment: keeping one would cost every commit, this is asked rarely.
    found = yield FetchMany(f"SELECT s.id {_BY_IDENTITY}", _IDENTITY, segment_ids)
    rows = yield Fetch(
        f"SELECT p.topic_id, p.partition_index, {LOCATION} FROM extents e "
        "JOIN segments s ON s.id = e.segment_id JOIN partitions p ON p.id = e.partition_id "
        "WHERE e.segment_id = ANY($1::bigint[]) ORDER BY e.segment_id, e.position",
        ([row[0] for row in found],),
    )
    return [
        LiveExtent(TopicPartition(TopicId(UUID(row[0])), row[1]), location(row[2:])) for row in rows
    ]


def _extents_in(keys: list[tuple[int, int, SegmentId]]) -> Transaction[Rows]:
    """Those of the extents (partition row, base offset) that still lie in the segment given with
    them, as rows of (partition, base offset, length, segment row, *segment id)."""
    rows = yield FetchMany(
        "SELECT e.partition_id, e.base_offset, e.length, e.segment_id, "
        "s.broker_id, s.broker_epoch, s.n FROM extents e JOIN segments s ON s.id = e.segment_id "
        "WHERE e.partition_id = r.partition_id AND e.base_offset = r.base_offset "
        "AND s.broker_id = r.broker_id AND s.broker_epoch = r.broker_epoch AND s.n = r.n",
        _EXTENT_KEY,
        [(row_id, base, *old) for row_id, base, old in keys],
    )
    return rows
