"""Consumer groups as they are stored: one row per group, and the offsets it committed.

What always holds: every write is guarded by the lease of the group's slot, so a coordinator that
lost it changes nothing any more; offsets belong to a topic's id, so one that is created again under
the same name starts without any; a group with offsets has a row of its own.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.database import (
    BIGINT,
    BYTES,
    INT,
    TEXT,
    Database,
    DeleteMany,
    Execute,
    Fetch,
    FetchMany,
    InsertMany,
    Row,
    Transaction,
)
from lakestream_spark.metadata.leases import Lease, guard

NO_EPOCH: Final = -1

_GROUP: Final = {
    "group_id": TEXT,
    "slot": INT,
    "protocol_type": TEXT,
    "generation": INT,
    "empty_since_ms": BIGINT,
}
_PLACE: Final = {"group_id": TEXT, "topic_id": TEXT, "partition_index": INT}
_OFFSET: Final = {
    **_PLACE,
    "committed_offset": BIGINT,
    "leader_epoch": INT,
    "metadata": BYTES,
    "commit_ms": BIGINT,
    "expire_ms": BIGINT,
}
_SAME_PLACE: Final = (
    "group_offsets.group_id = r.group_id AND group_offsets.topic_id = r.topic_id "
    "AND group_offsets.partition_index = r.partition_index"
)
_REPLACE_GROUP: Final = (
    "(group_id) DO UPDATE SET protocol_type = excluded.protocol_type, "
    "generation = excluded.generation, empty_since_ms = excluded.empty_since_ms"
)
_REPLACE_OFFSET: Final = (
    "(group_id, topic_id, partition_index) DO UPDATE SET "
    "committed_offset = excluded.committed_offset, leader_epoch = excluded.leader_epoch, "
    "metadata = excluded.metadata, commit_ms = excluded.commit_ms, expire_ms = excluded.expire_ms"
)
_NO_TOPIC: Final = (
    "NOT EXISTS (SELECT 1 FROM topics t WHERE t.id = group_offsets.topic_id "
    "AND t.deleted_ms IS NULL)"
)


class StoredGroup(NamedTuple):
    """What outlives the coordinator of a group; its members do not."""

    group_id: str
    protocol_type: str | None = None
    generation: int = 0
    empty_since_ms: int | None = None


class Committed(NamedTuple):
    """An offset of a partition and the client's note on it."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class Commit(NamedTuple):
    """An offset on its way into the store."""

    group_id: str
    committed: Committed
    commit_ms: int
    expire_ms: int | None = None


class Expiry(NamedTuple):
    """What may go: offsets older than `before_ms` of groups long empty, and those past their own
    time (`now_ms`) of all that are empty."""

    long_empty: Sequence[str]
    empty: Sequence[str]
    before_ms: int
    now_ms: int


class GroupOffsets:
    """The stored side of consumer groups. `slot` is the one that `lease` is for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, slot: int) -> list[StoredGroup]:
        """All groups of a slot."""
        return await self._database.read(_load(slot))

    async def save(self, lease: Lease, slot: int, groups: Sequence[StoredGroup]) -> None:
        """Store the groups as they are now."""
        await self._database.run(_save(lease, slot, groups))

    async def commit(
        self, lease: Lease, slot: int, commits: Sequence[Commit]
    ) -> set[TopicPartition]:
        """Store offsets, the last one of each place; partitions that do not exist come back."""
        return await self._database.run(_commit(lease, slot, commits))

    async def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """What the group committed of these partitions; the others are left out."""
        return await self._database.read(_fetch(group_id, partitions))

    async def fetch_all(self, group_id: str) -> list[tuple[str, Committed]]:
        """Everything the group committed on live topics, with their names, in order."""
        return await self._database.read(_fetch_all(group_id))

    async def forget(
        self, lease: Lease, group_id: str, partitions: Sequence[TopicPartition]
    ) -> None:
        """Drop the group's offsets of these partitions."""
        await self._database.run(_forget(lease, group_id, partitions))

    async def delete(self, lease: Lease, group_id: str) -> None:
        """Drop the group and all its offsets."""
        await self._database.run(_delete(lease, group_id))

    async def expire(self, lease: Lease, slot: int, expiry: Expiry) -> list[str]:
        """Drop what has expired and the offsets of deleted topics; the empty groups that have no
        offsets left are dropped and come back."""
        return await self._database.run(_expire(lease, slot, expiry))


def _load(slot: int) -> Transaction[list[StoredGroup]]:
    rows = yield Fetch(
        "SELECT group_id, protocol_type, generation, empty_since_ms FROM groups WHERE slot = $1",
        (slot,),
    )
    return [StoredGroup(*row) for row in rows]


def _save(lease: Lease, slot: int, groups: Sequence[StoredGroup]) -> Transaction[None]:
    yield from guard(lease)
    rows: list[Row] = [(group[0], slot, *group[1:]) for group in groups]
    yield InsertMany("groups", _GROUP, rows, _REPLACE_GROUP)


def _commit(lease: Lease, slot: int, commits: Sequence[Commit]) -> Transaction[set[TopicPartition]]:
    yield from guard(lease)
    topics = yield Fetch(
        "SELECT id, partitions FROM topics WHERE id = ANY($1::text[]) AND deleted_ms IS NULL",
        (sorted({str(commit.committed.partition.topic_id) for commit in commits}),),
    )
    counts = {row[0]: row[1] for row in topics}
    rows: dict[Row, Row] = {}
    groups: dict[str, Row] = {}
    unknown: set[TopicPartition] = set()
    for group_id, (partition, offset, epoch, metadata), commit_ms, expire_ms in commits:
        topic_id = str(partition.topic_id)
        if not 0 <= partition.number < counts.get(topic_id, 0):
            unknown.add(partition)
            continue
        place = (group_id, topic_id, partition.number)
        rows[place] = (*place, offset, epoch, metadata.encode(), commit_ms, expire_ms)
        groups[group_id] = (group_id, slot, None, 0, commit_ms)
    # Expiry may have dropped the group's row since it was loaded.
    yield InsertMany("groups", _GROUP, list(groups.values()), "(group_id) DO NOTHING")
    yield InsertMany("group_offsets", _OFFSET, list(rows.values()), _REPLACE_OFFSET)
    return unknown


def _fetch(
    group_id: str, partitions: Sequence[TopicPartition]
) -> Transaction[dict[TopicPartition, Committed]]:
    rows = yield FetchMany(
        "SELECT topic_id, partition_index, committed_offset, leader_epoch, metadata "
        f"FROM group_offsets WHERE {_SAME_PLACE}",
        _PLACE,
        _places(group_id, partitions),
    )
    found = [_committed(row) for row in rows]
    return {committed.partition: committed for committed in found}


def _fetch_all(group_id: str) -> Transaction[list[tuple[str, Committed]]]:
    rows = yield Fetch(
        "SELECT t.name, o.topic_id, o.partition_index, o.committed_offset, o.leader_epoch, "
        "o.metadata FROM group_offsets o JOIN topics t ON t.id = o.topic_id "
        "WHERE o.group_id = $1 AND t.deleted_ms IS NULL ORDER BY t.name, o.partition_index",
        (group_id,),
    )
    return [(row[0], _committed(row[1:])) for row in rows]


def _forget(lease: Lease, group_id: str, partitions: Sequence[TopicPartition]) -> Transaction[None]:
    yield from guard(lease)
    yield DeleteMany(
        "group_offsets", _SAME_PLACE, _PLACE, _places(group_id, partitions), "committed_offset"
    )


def _delete(lease: Lease, group_id: str) -> Transaction[None]:
    yield from guard(lease)
    yield Execute("DELETE FROM group_offsets WHERE group_id = $1", (group_id,))
    yield Execute("DELETE FROM groups WHERE group_id = $1", (group_id,))


def _expire(lease: Lease, slot: int, expiry: Expiry) -> Transaction[list[str]]:
    yield from guard(lease)
    yield Execute(
        "DELETE FROM group_offsets WHERE group_id = ANY($1::text[]) "
        "AND expire_ms IS NULL AND commit_ms <= $2",
        (list(expiry.long_empty), expiry.before_ms),
    )
    yield Execute(
        "DELETE FROM group_offsets WHERE group_id = ANY($1::text[]) AND expire_ms <= $2",
        (list(expiry.empty), expiry.now_ms),
    )
    yield Execute(
        "DELETE FROM group_offsets WHERE group_id IN (SELECT group_id FROM groups WHERE slot = $1) "
        f"AND {_NO_TOPIC}",
        (slot,),
    )
    rows = yield Fetch(
        "DELETE FROM groups WHERE group_id = ANY($1::text[]) AND NOT EXISTS "
        "(SELECT 1 FROM group_offsets o WHERE o.group_id = groups.group_id) RETURNING group_id",
        (list(expiry.empty),),
    )
    return [row[0] for row in rows]


def _places(group_id: str, partitions: Sequence[TopicPartition]) -> list[Row]:
    wanted = dict.fromkeys(partitions)
    return [(group_id, str(partition.topic_id), partition.number) for partition in wanted]


def _committed(row: Row) -> Committed:
    topic_id, index, offset, leader_epoch, metadata = row
    partition = TopicPartition(TopicId(UUID(topic_id)), index)
    return Committed(partition, offset, leader_epoch, bytes(metadata).decode())
