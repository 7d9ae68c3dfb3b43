"""The reader: offsets -> extents -> ranged GETs -> batches with their offsets stamped.

    read ─► ExtentIndex.locate ─► cache, or one GET per segment ─► skip, stamp, cut ─► bytes

What always holds
- what is returned starts with the batch that holds the offset asked for, and is dense from there;
- bytes from the store pass their CRCs before anybody sees them;
- a segment that was reclaimed or evacuated between locate and GET means planning again; an index
  that still points at a missing object after that is data loss and is raised as `Corrupt`.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from lakestream_spark.core.errors import Corrupt, InvalidBatch, LakestreamError, OffsetOutOfRange
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.kafka.batch import STAMP_BYTES, BatchHeader, stamp, walk
from lakestream_spark.kafka.pieces import Piece, Pieces
from lakestream_spark.kafka.records import (
    TimestampedOffset,
    first_offset_at_or_after,
    newest_offset,
)
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.fetcher import ExtentFetcher, SegmentGone
from lakestream_spark.wal.ports import ExtentIndex, ExtentLocation, Located, PartitionEnds, Wanted

_MAX_PLANS: Final = 8
_MIN_PIECE_BYTES: Final = 4096
"""Smaller pieces are joined: a system call takes few of them at a time."""
_MIN_SHARE: Final = 1 / 16
"""A view keeps all of its segment in memory until it is sent; below this share it is copied."""


class ReadRequest(NamedTuple):
    """Batches of a partition from `offset` on, about `max_bytes` of them (at least one).

    `for_table` reads below the log start as well: a record goes to the table even if its log start
    has passed.
    """

    partition: TopicPartition
    offset: int
    max_bytes: int
    for_table: bool = False
    at_least_one: bool = True


class ReadResult(NamedTuple):
    """Whole batches, and the partition's borders at the time they were located.

    `pieces` is empty at the high watermark, and below the table end: the table serves that.
    """

    pieces: Pieces
    next_offset: int
    ends: PartitionEnds

    @property
    def data(self) -> bytes:
        """The same in one piece: a copy."""
        return bytes(self.pieces)


class WalReader:
    """Reads committed batches; the stores are by profile."""

    def __init__(
        self, index: ExtentIndex, stores: Mapping[str, ObjectStore], cache: WalCache
    ) -> None:
        self._index = index
        self._fetcher = ExtentFetcher(stores, cache)

    async def read(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, for_table: bool = False
    ) -> ReadResult:
        """One partition; raises `OffsetOutOfRange`, `UnknownTopic`, `Transient` or `Corrupt`."""
        (result,) = await self.read_many([ReadRequest(partition, offset, max_bytes, for_table)])
        if isinstance(result, LakestreamError):
            raise result
        return result

    async def read_many(
        self, requests: Sequence[ReadRequest], *, max_total_bytes: int | None = None
    ) -> list[ReadResult | LakestreamError]:
        """Many partitions in one call; what lies in one segment is fetched together.

        One bad partition is a value in the answer and does not fail the others. With a total bound
        the first partition that has records gives at least one batch, the others what fits.
        """
        results: list[ReadResult | LakestreamError | None] = [None] * len(requests)
        missing: dict[int, ExtentLocation] = {}
        for _ in range(_MAX_PLANS):
            left = [n for n, result in enumerate(results) if result is None]
            if not left:
                break
            # All are located before any is fetched: what lies in one segment travels together.
            asked = [requests[n] for n in left]
            plans = await self._plan(asked)
            if max_total_bytes is not None:
                asked, plans = _share(asked, plans, max_total_bytes)
            answers = await asyncio.gather(
                *(
                    self._fetch(request, plan, missing.get(n))
                    for n, request, plan in zip(left, asked, plans, strict=True)
                )
            )
            for n, answer in zip(left, answers, strict=True):
                if isinstance(answer, SegmentGone):
                    missing[n] = answer.extent
                else:
                    results[n] = answer
        return [
            Corrupt("the location changed under every plan", partition=requests[n].partition)
            if result is None
            else result
            for n, result in enumerate(results)
        ]

    async def _plan(self, requests: Sequence[ReadRequest]) -> list[Located | LakestreamError]:
        located = await self._index.locate_many([Wanted(*request[:3]) for request in requests])
        return [
            plan if isinstance(plan, LakestreamError) else _checked(request, plan)
            for request, plan in zip(requests, located, strict=True)
        ]

    async def _fetch(
        self,
        request: ReadRequest,
        plan: Located | LakestreamError,
        missing: ExtentLocation | None,
    ) -> ReadResult | LakestreamError | SegmentGone:
        if isinstance(plan, LakestreamError):
            return plan
        if missing is not None and missing in plan.extents:
            return _lost(request.partition, missing)
        try:
            chunks = await self._fetcher.fetch(plan.extents)
            return _assemble(request, plan, chunks)
        except (LakestreamError, SegmentGone) as error:
            return error

    async def offset_for_timestamp(
        self, partition: TopicPartition, timestamp_ms: int
    ) -> TimestampedOffset | None:
        """The first record in the WAL at or after the time, exactly; None when there is none."""
        offset, missing = 0, None
        while True:
            located = await self._index.locate_timestamp(partition, timestamp_ms, offset)
            if not located.extents:
                return None
            (extent,) = located.extents
            if extent == missing:
                raise _lost(partition, extent)
            try:
                (chunk,) = await self._fetcher.fetch(located.extents)
            except SegmentGone:
                missing = extent  # It is in the table by now, or it is lost.
                continue
            start = max(offset, located.ends.log_start, located.ends.table_end)
            found = _first_in(chunk, extent, timestamp_ms, start)
            if found is not None:
                return found
            # The batch header promised a later record than the batch holds: look further on.
            offset = extent.next_offset

    async def offset_of_max_timestamp(self, partition: TopicPartition) -> TimestampedOffset | None:
        """The first record in the WAL that has the newest time; None when there is no record."""
        missing = None
        while True:
            ends, extents = await self._index.locate_newest(partition)
            if missing is not None and missing in extents:
                raise _lost(partition, missing)
            try:
                chunks = await self._fetcher.fetch(extents)
            except SegmentGone as gone:
                missing = gone.extent  # It is in the table by now, or it is lost.
                continue
            start = max(ends.log_start, ends.table_end)
            found = (_newest_in(*each, start) for each in zip(chunks, extents, strict=True))
            return _newest(found)


def _share(
    requests: Sequence[ReadRequest], plans: Sequence[Located | LakestreamError], total: int
) -> tuple[list[ReadRequest], list[Located | LakestreamError]]:
    """Divide the total among the partitions that have records, in their order."""
    shared: list[ReadRequest] = []
    cut: list[Located | LakestreamError] = []
    first = True
    for request, plan in zip(requests, plans, strict=True):
        if isinstance(plan, LakestreamError) or not plan.extents:
            shared.append(request)
            cut.append(plan)
            continue
        own = min(request.max_bytes, total)
        shared.append(request._replace(max_bytes=own, at_least_one=first))
        cut.append(plan if first or own > 0 else plan._replace(extents=()))
        total -= min(own, sum(extent.length for extent in plan.extents))
        first = False
    return shared, cut


def _checked(request: ReadRequest, located: Located) -> Located | LakestreamError:
    ends = located.ends
    first = ends.table_end if request.for_table else ends.log_start
    if not first <= request.offset <= ends.high_watermark:
        return OffsetOutOfRange(
            "the offset is outside the log",
            partition=request.partition,
            offset=request.offset,
            log_start=ends.log_start,
            high_watermark=ends.high_watermark,
        )
    if not located.extents and ends.table_end <= request.offset < ends.high_watermark:
        return Corrupt(
            "data loss: the index has no extent for an offset of the log",
            partition=request.partition,
            offset=request.offset,
            ends=ends,
        )
    return located


def _lost(partition: TopicPartition, extent: ExtentLocation) -> Corrupt:
    return Corrupt(
        "data loss: the index points at a WAL segment that is not in the store",
        partition=partition,
        offset=extent.base_offset,
        segment=extent.segment_id,
    )


def _assemble(request: ReadRequest, located: Located, chunks: Sequence[memoryview]) -> ReadResult:
    """Stamp the batches from the one that holds the offset on, and stop at the byte bound."""
    parts: list[Piece] = []
    size, next_offset = 0, request.offset
    for extent, chunk in zip(located.extents, chunks, strict=True):
        own: list[Piece] = []
        base = extent.base_offset
        for position, header in walk(chunk, where=str(extent.segment_id)):
            following = base + header.offsets
            if following > request.offset:
                fits = size + header.size <= request.max_bytes
                if not fits and (size or not request.at_least_one):
                    parts += _kept(own, chunk)
                    return ReadResult(Pieces(parts), next_offset, located.ends)
                # Cached bytes are shared and stay as they are: new bytes go in front of a view.
                own.append(stamp(base, header.length))
                own.append(chunk[position + STAMP_BYTES : position + header.size])
                size += header.size
                next_offset = following
            base = following
        if base != extent.next_offset:
            raise Corrupt(
                "an extent does not hold the offsets its index row says",
                partition=request.partition,
                segment=extent.segment_id,
                expected=extent.next_offset,
                actual=base,
            )
        parts += _kept(own, chunk)
    return ReadResult(Pieces(parts), next_offset, located.ends)


def _kept(parts: list[Piece], chunk: memoryview) -> list[Piece]:
    """The pieces of a chunk as views, or in one copy where that is cheaper or holds less memory."""
    size = sum(map(len, parts))
    whole = len(chunk.obj) if isinstance(chunk.obj, bytes) else len(chunk)
    if size < len(parts) * _MIN_PIECE_BYTES or size < whole * _MIN_SHARE:
        return [b"".join(parts)] if parts else parts
    return parts


def _first_in(
    chunk: memoryview, extent: ExtentLocation, timestamp_ms: int, from_offset: int
) -> TimestampedOffset | None:
    for batch, header in _batches_from(chunk, extent, from_offset):
        # Content that contradicts its header has no readable record.
        with suppress(InvalidBatch):
            found = first_offset_at_or_after(batch, header, timestamp_ms, from_offset=from_offset)
            if found is not None:
                return found
    return None


def _newest_in(
    chunk: memoryview, extent: ExtentLocation, from_offset: int
) -> TimestampedOffset | None:
    found: list[TimestampedOffset | None] = []
    for batch, header in _batches_from(chunk, extent, from_offset):
        with suppress(InvalidBatch):
            found.append(newest_offset(batch, header, from_offset=from_offset))
    return _newest(found)


def _newest(found: Iterable[TimestampedOffset | None]) -> TimestampedOffset | None:
    """The first that has the newest time."""
    known = (each for each in found if each is not None)
    return max(known, key=lambda each: each.timestamp, default=None)


def _batches_from(
    chunk: memoryview, extent: ExtentLocation, from_offset: int
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """The batches that reach beyond the offset, with headers that have their offsets."""
    base = extent.base_offset
    for position, header in walk(chunk, where=str(extent.segment_id)):
        following = base + header.offsets
        if following > from_offset:
            yield chunk[position : position + header.size], header._replace(base_offset=base)
        base = following
