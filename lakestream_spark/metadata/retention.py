"""Log starts: moved by retention settings and by deletion of records.

What always holds: a log start never moves back and never passes the high watermark, and moving it
is all that happens here: extents stay until they are in the table. Time and size are judged by the
index, which holds what is not in the table yet; what the table holds is for the table's upkeep to
judge, which moves the log start through `delete_records`. While a log begins in its table an old
record in the WAL moves nothing: those before it may be newer.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import OffsetOutOfRange
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.database import BIGINT, Database, Fetch, Transaction, UpdateMany
from lakestream_spark.metadata.partitions import find_partition
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topic_config.values import KEEP

HIGH_WATERMARK: Final = -1
"""As an offset of `delete_records`: everything up to the high watermark."""

_LOG_START: Final = {"id": BIGINT, "log_start": BIGINT}


class Retention:
    """Moves log starts. One `run` looks at a bounded number of partitions and the next goes on."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._after = 0

    async def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        """The log start after moving it to `before_offset`; raises `OffsetOutOfRange` beyond the
        high watermark, changes nothing below the log start."""
        return await self._database.run(_delete_records(partition, before_offset))

    async def run(self, *, limit: int = 1000) -> int:
        """Apply the topics' settings to the next `limit` partitions; how many log starts moved."""
        wall_ms = self._clock.wall_ms()
        candidates = await self._database.read(_candidates(self._after, limit, wall_ms))
        self._after = candidates.last_id if candidates.looked_at == limit else 0
        if not candidates.starts:
            return 0
        return await self._database.run(_move(candidates.starts))


class _Candidates(NamedTuple):
    """New log starts by partition row, and how far the look went."""

    starts: dict[int, int]
    last_id: int
    looked_at: int


def _candidates(after: int, limit: int, now_ms: int) -> Transaction[_Candidates]:
    rows = yield Fetch(
        "SELECT p.id, p.log_start, p.next_offset, p.table_end, t.config FROM partitions p "
        "JOIN topics t ON t.id = p.topic_id WHERE p.id > $1 ORDER BY p.id LIMIT $2",
        (after, limit),
    )
    starts: dict[int, int] = {}
    for row_id, log_start, high_watermark, table_end, config in rows:
        own = TopicConfig.of(json.loads(config))
        keeps_all = own.retention_ms == own.retention_bytes == KEEP
        if keeps_all or log_start == high_watermark:
            continue
        extents = yield Fetch(
            "SELECT base_offset, next_offset, length, max_timestamp FROM extents "
            "WHERE partition_id = $1 AND next_offset > $2 ORDER BY base_offset",
            (row_id, log_start),
        )
        max_age_ms = KEEP if log_start < table_end else own.retention_ms
        start = kept_from(extents, max_age_ms, own.retention_bytes, now_ms)
        if start is not None and start > log_start:
            starts[row_id] = start
    return _Candidates(starts, rows[-1][0] if rows else 0, len(rows))


def kept_from(extents: Sequence[Sequence[int]], ms: int, size: int, now_ms: int) -> int | None:
    """The first offset to keep, given (base, next, length, max timestamp) in offset order.

    None when nothing of the index is beyond the limits.
    """
    start: int | None = None
    if ms != KEEP:
        for _, next_offset, _, max_timestamp in extents:
            if max_timestamp >= now_ms - ms:
                break
            start = next_offset
    if size != KEEP:
        kept = 0
        for _, next_offset, length, _ in reversed(extents):
            # Like Kafka: an extent goes when what is left without it is still enough.
            if kept >= size:
                start = max(next_offset, start or 0)
                break
            kept += length
    return start


def _move(starts: Mapping[int, int]) -> Transaction[int]:
    locked = yield Fetch(
        "SELECT id, log_start, next_offset FROM partitions "
        "WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE",
        (sorted(starts),),
    )
    moves = [
        (row_id, min(starts[row_id], high_watermark))
        for row_id, log_start, high_watermark in locked
        if starts[row_id] > log_start
    ]
    yield UpdateMany("partitions", ("id",), _LOG_START, moves)
    return len(moves)


def _delete_records(partition: TopicPartition, before_offset: int) -> Transaction[int]:
    row_id, ends = yield from find_partition(partition)
    offset = ends.high_watermark if before_offset == HIGH_WATERMARK else before_offset
    if not 0 <= offset <= ends.high_watermark:
        raise OffsetOutOfRange(
            "records can be deleted up to the high watermark",
            offset=before_offset,
            high_watermark=ends.high_watermark,
        )
    yield from _move({row_id: offset})
    return max(offset, ends.log_start)
