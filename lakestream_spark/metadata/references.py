"""Extents and the segments they lie in: the only statements that change either.

What always holds: after every transaction a segment's `live_extents` and `live_bytes` are the
number and the bytes of the extents that point at it; `unreferenced_ms` is set exactly when there
are none. The partitions are locked before their extents, then the segments in id order. Only the
extents of partitions that are deleted have nobody to lock: nothing but `remains` touches them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from lakestream_spark.metadata.database import (
    BIGINT,
    INT,
    DeleteMany,
    Fetch,
    FetchMany,
    InsertMany,
    Row,
    Transaction,
    UpdateMany,
)
from lakestream_spark.metadata.decide import Run
from lakestream_spark.wal.segment import StoredSegment

PORTION: Final = 5_000
"""At most so many extents are forgotten in one transaction."""
Portion: TypeAlias = list[tuple[int, int]]
"""Partitions by row id, each with the offset below which its extents go."""

_EXTENT: Final = {
    "partition_id": BIGINT,
    "segment_id": BIGINT,
    "base_offset": BIGINT,
    "next_offset": BIGINT,
    "position": BIGINT,
    "length": INT,
    "max_timestamp": BIGINT,
    "flags": "smallint",
}
_BELOW: Final = {"partition_id": BIGINT, "below": BIGINT}
_IS_BELOW: Final = (
    "extents.partition_id = r.partition_id "
    "AND extents.base_offset < r.below AND extents.next_offset <= r.below"
)
_PLACE: Final = {
    "partition_id": BIGINT,
    "base_offset": BIGINT,
    "segment_id": BIGINT,
    "position": BIGINT,
}
_LIVE: Final = {"id": BIGINT, "live_extents": INT, "live_bytes": BIGINT, "unreferenced_ms": BIGINT}


class References(NamedTuple):
    """How many extents point at a segment with how many bytes; a change of that may be negative."""

    extents: int
    bytes: int


def insert_segment(segment: StoredSegment, live: References, now_ms: int) -> Transaction[int]:
    """The row id of a new segment; one that nothing points at is unreferenced from the start."""
    rows = yield Fetch(
        "INSERT INTO segments (broker_id, broker_epoch, n, profile, size, created_ms, "
        "live_extents, live_bytes, unreferenced_ms) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id",
        (
            *segment.id,
            segment.profile,
            segment.size,
            segment.created_ms,
            live.extents,
            live.bytes,
            None if live.extents else now_ms,
        ),
    )
    return int(rows[0][0])


def insert_extents(segment_row: int, runs: Iterable[tuple[int, Run]]) -> Transaction[None]:
    """Index runs, given with their partitions' row ids, as extents of a segment."""
    rows: list[Row] = [(partition_id, segment_row, *run) for partition_id, run in runs]
    yield InsertMany("extents", _EXTENT, rows)


def portions(below: Sequence[tuple[int, int]]) -> Transaction[list[Portion]]:
    """The partitions with extents wholly below an offset, in portions of at most `PORTION` extents.

    At least one portion, perhaps empty; a partition with many extents is in several.
    """
    ends = dict(below)
    counts = yield from _count_extents(below)
    long = [(row_id, ends[row_id]) for row_id, count in counts.items() if count > PORTION]
    borders = yield from _borders(long)
    found: list[Portion] = [[]]
    room = PORTION
    for row_id, count in sorted(counts.items()):
        own = [border for border in borders.get(row_id, ()) if border < ends[row_id]]
        sizes = [*(PORTION for _ in own), count - PORTION * len(own)]
        for end, size in zip([*own, ends[row_id]], sizes, strict=True):
            if size > room:
                found.append([])
                room = PORTION
            found[-1].append((row_id, end))
            room -= size
    return found


def _count_extents(below: Sequence[tuple[int, int]]) -> Transaction[dict[int, int]]:
    """How many extents lie wholly below an offset, for the partitions that have any."""
    rows = yield FetchMany(
        f"SELECT extents.partition_id, COUNT(*) FROM extents WHERE {_IS_BELOW} "
        "GROUP BY extents.partition_id",
        _BELOW,
        below,
    )
    return {row[0]: row[1] for row in rows}


def _borders(below: Sequence[tuple[int, int]]) -> Transaction[dict[int, list[int]]]:
    """Where every `PORTION` extents of a partition end."""
    rows = yield FetchMany(
        "SELECT n.partition_id, n.next_offset FROM (SELECT extents.partition_id, "
        "extents.next_offset, ROW_NUMBER() OVER (ORDER BY extents.base_offset) AS number "
        f"FROM extents WHERE {_IS_BELOW}) n WHERE n.number % {PORTION} = 0",
        _BELOW,
        below,
    )
    borders: dict[int, list[int]] = {}
    for row_id, border in sorted(rows):
        borders.setdefault(row_id, []).append(border)
    return borders


def forget_extents(below: Sequence[tuple[int, int]], now_ms: int) -> Transaction[int]:
    """Drop the extents that lie wholly below an offset, given per locked partition; how many."""
    rows = yield DeleteMany("extents", _IS_BELOW, _BELOW, below, "segment_id, length")
    if not rows:
        return 0
    count: Counter[int] = Counter()
    size: Counter[int] = Counter()
    for segment_row, length in rows:
        count[segment_row] += 1
        size[segment_row] += length
    yield from change_references(
        {row: References(-count[row], -size[row]) for row in count}, now_ms
    )
    return len(rows)


def repoint_extents(segment_row: int, places: Sequence[tuple[int, int, int]]) -> Transaction[None]:
    """Point extents, given as (partition, base offset, position), at another segment."""
    rows: list[Row] = [(part, base, segment_row, position) for part, base, position in places]
    yield UpdateMany("extents", ("partition_id", "base_offset"), _PLACE, rows)


def change_references(changes: dict[int, References], now_ms: int) -> Transaction[None]:
    """Apply changes to segments' references."""
    locked = yield Fetch(
        "SELECT id, live_extents, live_bytes FROM segments "
        "WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE",
        (sorted(changes),),
    )
    rows: list[Row] = []
    for segment_row, extents, size in locked:
        change = changes[segment_row]
        left = extents + change.extents
        rows.append((segment_row, left, size + change.bytes, None if left else now_ms))
    yield UpdateMany("segments", ("id",), _LIVE, rows)
