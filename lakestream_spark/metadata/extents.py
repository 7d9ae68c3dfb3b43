"""Where the bytes of an offset are: the WAL's `ExtentIndex` port.

What always holds: borders and extents of one answer come from one snapshot; the extents are
neighbours in offset order. A look-up costs two short index ranges however long the index is.
"""

from collections.abc import Sequence
from typing import Final

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import BrokerId, SegmentId, TopicPartition
from lakestream_spark.metadata.database import (
    BIGINT,
    INT,
    TEXT,
    Database,
    Fetch,
    FetchMany,
    Row,
    Transaction,
)
from lakestream_spark.metadata.decide import TRANSACTIONAL
from lakestream_spark.metadata.partitions import ENDS, find_partition
from lakestream_spark.wal.ports import ExtentLocation, Located, PartitionEnds, Wanted

LOCATION: Final = (
    "e.base_offset, e.next_offset, s.broker_id, s.broker_epoch, s.n, s.profile, "
    "e.position, e.length, e.max_timestamp, e.flags"
)
"""The columns of an `ExtentLocation`, from `extents e` joined with `segments s`."""

_FROM: Final = f"SELECT {LOCATION} FROM extents e JOIN segments s ON s.id = e.segment_id "
_HOLDING: Final = (
    "WHERE e.partition_id = $1 AND e.base_offset >= COALESCE((SELECT MAX(h.base_offset) "
    "FROM extents h WHERE h.partition_id = $1 AND h.base_offset <= $2), $2) "
)
"""From the extent that holds offset $2 on."""
_FIRST_PAGE: Final = 8
_LAST_PAGE: Final = 512
_PARTITION: Final = {"want": INT, "topic_id": TEXT, "partition_index": INT}
_SEARCH: Final = {"want": INT, "partition_id": BIGINT, "from_offset": BIGINT}
_PAGE_FROM: Final = (
    f"SELECT r.want AS want, {LOCATION} FROM extents e JOIN segments s ON s.id = e.segment_id "
    "WHERE e.partition_id = r.partition_id AND e.base_offset >= COALESCE("
    "(SELECT MAX(h.base_offset) FROM extents h "
    "WHERE h.partition_id = r.partition_id AND h.base_offset <= r.from_offset), r.from_offset) "
    "ORDER BY e.base_offset LIMIT "
)
"""One page of a search, from the extent that holds its offset on; its size follows."""


class SqlExtentIndex:
    """Look-ups by offset and by time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def locate(self, partition: TopicPartition, offset: int, max_bytes: int) -> Located:
        (located,) = await self.locate_many([Wanted(partition, offset, max_bytes)])
        if isinstance(located, UnknownTopic):
            raise located
        return located

    async def locate_many(self, wanted: Sequence[Wanted]) -> list[Located | UnknownTopic]:
        return await self._database.read(_locate(wanted))

    async def high_watermarks(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Of those that exist, in one query."""
        return await self._database.read(_high_watermarks(partitions))

    async def changed(self, within_s: float) -> None:
        """Return when somebody may have committed a segment, at the latest after `within_s`."""
        await self._database.changed(within_s)

    async def locate_timestamp(
        self, partition: TopicPartition, timestamp_ms: int, from_offset: int
    ) -> Located:
        return await self._database.read(_locate_timestamp(partition, timestamp_ms, from_offset))

    async def locate_newest(self, partition: TopicPartition) -> Located:
        return await self._database.read(_locate_newest(partition))


def location(row: Row) -> ExtentLocation:
    base, following, broker_id, epoch, n, profile, position, length, timestamp, flags = row
    return ExtentLocation(
        base_offset=base,
        next_offset=following,
        segment_id=SegmentId(BrokerId(broker_id), epoch, n),
        profile=profile,
        position=position,
        length=length,
        max_timestamp=timestamp,
        transactional=bool(flags & TRANSACTIONAL),
    )


def _locate(wanted: Sequence[Wanted]) -> Transaction[list[Located | UnknownTopic]]:
    rows = yield FetchMany(
        f"SELECT r.want AS want, id, {ENDS} FROM partitions "
        "WHERE topic_id = r.topic_id AND partition_index = r.partition_index",
        _PARTITION,
        [(n, str(each.partition.topic_id), each.partition.number) for n, each in enumerate(wanted)],
    )
    searches = {
        want: _Search(row_id, PartitionEnds(*ends), wanted[want]) for want, row_id, *ends in rows
    }
    size = _FIRST_PAGE  # Most readers are at the tail: one extent is all there is.
    while left := {want: search for want, search in searches.items() if not search.done}:
        found = yield FetchMany(
            f"{_PAGE_FROM}{size}",
            _SEARCH,
            [(n, each.row_id, each.offset) for n, each in left.items()],
        )
        pages: dict[int, list[ExtentLocation]] = {want: [] for want in left}
        for row in found:
            pages[row[0]].append(location(row[1:]))
        for want, page in pages.items():
            searches[want].take(page, size)
        size = min(8 * size, _LAST_PAGE)
    return [
        searches[n].located()
        if n in searches
        else UnknownTopic("no such topic or partition", partition=each.partition)
        for n, each in enumerate(wanted)
    ]


def _high_watermarks(
    partitions: Sequence[TopicPartition],
) -> Transaction[dict[TopicPartition, int]]:
    rows = yield FetchMany(
        "SELECT r.want AS want, next_offset FROM partitions "
        "WHERE topic_id = r.topic_id AND partition_index = r.partition_index",
        _PARTITION,
        [(n, str(each.topic_id), each.number) for n, each in enumerate(partitions)],
    )
    return {partitions[want]: next_offset for want, next_offset in rows}


class _Search:
    """The extents found so far for one wanted range, and where the next page begins."""

    def __init__(self, row_id: int, ends: PartitionEnds, wanted: Wanted) -> None:
        self.row_id = row_id
        self.offset = wanted.offset
        self.done = not ends.table_end <= wanted.offset < ends.high_watermark
        self._ends = ends
        self._left = wanted.max_bytes
        self._extents: list[ExtentLocation] = []

    def take(self, page: list[ExtentLocation], size: int) -> None:
        for extent in sorted(page):
            if self._extents and extent.length > self._left:
                self.done = True
                return
            self._extents.append(extent)
            self._left -= extent.length
        self.offset = self._extents[-1].next_offset if self._extents else self.offset
        # At the end no extent holds the offset: the next page would begin with the last one again.
        at_end = self.offset >= self._ends.high_watermark
        self.done = at_end or len(page) < size or self._left <= 0

    def located(self) -> Located:
        return Located(self._ends, tuple(self._extents))


def _locate_timestamp(
    partition: TopicPartition, timestamp_ms: int, from_offset: int
) -> Transaction[Located]:
    row_id, ends = yield from find_partition(partition)
    start = max(ends.log_start, ends.table_end, from_offset)
    rows = yield Fetch(
        f"{_FROM}{_HOLDING} AND e.next_offset > $2 AND e.max_timestamp >= $3 "
        "ORDER BY e.base_offset LIMIT 1",
        (row_id, start, timestamp_ms),
    )
    return Located(ends, tuple(location(row) for row in rows))


def _locate_newest(partition: TopicPartition) -> Transaction[Located]:
    row_id, ends = yield from find_partition(partition)
    start = max(ends.log_start, ends.table_end)
    cut = yield Fetch(
        f"{_FROM}WHERE e.partition_id = $1 AND e.base_offset < $2 AND e.next_offset > $2 LIMIT 1",
        (row_id, start),
    )
    whole = yield Fetch(
        f"{_FROM}WHERE e.partition_id = $1 AND e.base_offset >= $2 "
        "ORDER BY e.max_timestamp DESC, e.base_offset LIMIT 1",
        (row_id, start),
    )
    return Located(ends, tuple(location(row) for row in (*cut, *whole)))
