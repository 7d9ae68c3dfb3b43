"""All partitions and all groups at one moment, for those who show them to people.

What always holds: an answer is one snapshot of the store. It costs one look at every partition, or
at every offset that groups committed, however long the index of extents is.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.database import BIGINT, Database, Fetch, FetchMany, Transaction
from lakestream_spark.metadata.lag import LAG_SQL
from lakestream_spark.metadata.partitions import ENDS
from lakestream_spark.wal.ports import PartitionEnds

_GROUPS: Final = (
    "SELECT g.group_id, g.empty_since_ms, l.topic, l.lag, l.newest_ms FROM groups g LEFT JOIN ("
    "SELECT o.group_id AS group_id, t.name AS topic, MAX(o.commit_ms) AS newest_ms, "
    f"CAST(SUM({LAG_SQL}) AS bigint) AS lag "
    "FROM group_offsets o JOIN topics t ON t.id = o.topic_id "
    "JOIN partitions p ON p.topic_id = o.topic_id AND p.partition_index = o.partition_index "
    "WHERE t.deleted_ms IS NULL GROUP BY o.group_id, t.name"
    ") l ON l.group_id = g.group_id ORDER BY g.group_id, l.topic"
)
_FROM_ON: Final = {"id": BIGINT, "from_offset": BIGINT}
_ARRIVED: Final = (
    "SELECT r.id AS id, CAST(SUM(e.next_offset - e.base_offset) AS bigint) AS records, "
    "CAST(SUM(e.length) AS bigint) AS bytes FROM extents e "
    "WHERE e.partition_id = r.id AND e.base_offset >= r.from_offset"
)


class PartitionNow(NamedTuple):
    """A partition's borders; `row_id` is never used for another."""

    row_id: int
    partition: TopicPartition
    ends: PartitionEnds


class Arrived(NamedTuple):
    """Records and their bytes in the WAL."""

    records: int
    bytes: int


class GroupNow(NamedTuple):
    """How far a group is behind in one topic; a group without offsets has no topic."""

    group_id: str
    has_members: bool
    topic: str | None
    lag: int
    """From what it committed, or else the log start, to the high watermarks."""
    committed_ms: int | None


class Overview:
    """Everything at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def partitions(self) -> list[PartitionNow]:
        """Every partition of every live topic."""
        return await self._database.read(_partitions())

    async def arrived(self, from_offsets: Mapping[int, int]) -> dict[int, Arrived]:
        """What the WAL holds of partitions, by row id, from an offset on; nothing is left out."""
        return await self._database.read(_arrived(from_offsets))

    async def groups(self) -> list[GroupNow]:
        """Every group, with a row for each topic it committed offsets of, in order."""
        return await self._database.read(_groups())


def _partitions() -> Transaction[list[PartitionNow]]:
    rows = yield Fetch(f"SELECT id, topic_id, partition_index, {ENDS} FROM partitions ORDER BY id")
    # A UUID is slow to read, and the partitions of a topic come in runs.
    topic_ids = {text: TopicId(UUID(text)) for text in {row[1] for row in rows}}
    return [
        PartitionNow(row_id, TopicPartition(topic_ids[text], index), PartitionEnds(*ends))
        for row_id, text, index, *ends in rows
    ]


def _arrived(from_offsets: Mapping[int, int]) -> Transaction[dict[int, Arrived]]:
    rows = yield FetchMany(_ARRIVED, _FROM_ON, list(from_offsets.items()))
    return {row_id: Arrived(records or 0, size or 0) for row_id, records, size in rows}


def _groups() -> Transaction[list[GroupNow]]:
    rows = yield Fetch(_GROUPS)
    return [
        GroupNow(group_id, empty_since_ms is None, topic, lag or 0, newest_ms)
        for group_id, empty_since_ms, topic, lag, newest_ms in rows
    ]
