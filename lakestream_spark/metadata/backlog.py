"""What is acknowledged and not yet in a table: how much, since when, and who asked for it now.

Costs one look at every partition and one index look-up for each that has something: a poll is
cheap however long the index is.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.database import (
    BIGINT,
    INT,
    TEXT,
    Database,
    Fetch,
    InsertMany,
    Transaction,
)
from lakestream_spark.metadata.tables import PlannedRange

_PENDING: Final = (
    "SELECT p.topic_id, p.partition_index, p.table_end, "
    "COALESCE(p.first_unstable, p.next_offset), "
    "(SELECT s.created_ms FROM extents e JOIN segments s ON s.id = e.segment_id "
    "WHERE e.partition_id = p.id AND e.next_offset > p.table_end "
    "ORDER BY e.base_offset LIMIT 1), f.wanted_end "
    "FROM partitions p LEFT JOIN flushes f "
    "ON f.topic_id = p.topic_id AND f.partition_index = p.partition_index "
    "WHERE p.table_end < COALESCE(p.first_unstable, p.next_offset) "
    "ORDER BY p.topic_id, p.partition_index"
)
_FLUSH: Final = {"topic_id": TEXT, "partition_index": INT, "wanted_end": BIGINT}


class PartitionBacklog(NamedTuple):
    """What of a partition is not in the table."""

    range: PlannedRange
    oldest_ms: int
    """When the oldest of it was acknowledged."""
    wanted_end: int | None = None
    """Up to where somebody ever asked for it."""

    @property
    def flush_wanted(self) -> bool:
        return self.wanted_end is not None and self.range.first < self.wanted_end


class TopicBacklog(NamedTuple):
    """What of a topic's partitions is not in its table; at least one has something."""

    partitions: tuple[PartitionBacklog, ...]

    @property
    def ranges(self) -> tuple[PlannedRange, ...]:
        return tuple(each.range for each in self.partitions)

    @property
    def oldest_ms(self) -> int:
        """When the oldest of it was acknowledged."""
        return min(each.oldest_ms for each in self.partitions)

    @property
    def flush_wanted(self) -> bool:
        """Somebody waits for a part of it."""
        return any(each.flush_wanted for each in self.partitions)


class Backlog:
    """What the tables lack."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pending(self) -> dict[TopicId, TopicBacklog]:
        """Every topic with offsets between its table ends and its last stable offsets."""
        return await self._database.read(_pending())

    async def wal_bytes(self) -> int:
        """The bytes of all of it."""
        return await self._database.read(_wal_bytes())

    async def ask_flush(self, topic_id: TopicId) -> dict[int, int]:
        """Ask for everything acknowledged so far to be committed soon; the ends to wait for."""
        return await self._database.run(_ask_flush(topic_id))

    async def table_ends(self, topic_id: TopicId) -> dict[int, int]:
        return await self._database.read(_table_ends(topic_id))


def _pending() -> Transaction[dict[TopicId, TopicBacklog]]:
    rows = yield Fetch(_PENDING)
    found: defaultdict[str, list[PartitionBacklog]] = defaultdict(list)
    for text, partition, table_end, last_stable, created_ms, wanted_end in rows:
        planned = PlannedRange(partition, table_end, last_stable)
        found[text].append(PartitionBacklog(planned, created_ms, wanted_end))
    return {TopicId(UUID(text)): TopicBacklog(tuple(own)) for text, own in found.items()}


def _wal_bytes() -> Transaction[int]:
    rows = yield Fetch(
        "SELECT CAST(COALESCE(SUM(live_bytes), 0) AS bigint) FROM segments WHERE live_extents > 0"
    )
    return int(rows[0][0])


def _ask_flush(topic_id: TopicId) -> Transaction[dict[int, int]]:
    rows = yield Fetch(
        "SELECT partition_index, COALESCE(first_unstable, next_offset) FROM partitions "
        # In this order, so that two who ask at once do not wait for each other.
        "WHERE topic_id = $1 ORDER BY partition_index",
        (str(topic_id),),
    )
    wanted = {partition: end for partition, end in rows if end > 0}
    yield InsertMany(
        "flushes",
        _FLUSH,
        [(str(topic_id), partition, end) for partition, end in wanted.items()],
        # Another may have asked for more since the ends were read.
        on_conflict="(topic_id, partition_index) DO UPDATE SET wanted_end = excluded.wanted_end "
        "WHERE flushes.wanted_end < excluded.wanted_end",
    )
    return wanted


def _table_ends(topic_id: TopicId) -> Transaction[dict[int, int]]:
    rows = yield Fetch(
        "SELECT partition_index, table_end FROM partitions WHERE topic_id = $1", (str(topic_id),)
    )
    return dict(rows)


def reached(ends: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    """Whether every wanted end is in the table."""
    return all(ends.get(partition, 0) >= end for partition, end in wanted.items())
