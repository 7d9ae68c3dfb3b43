"""The WAL against its index: extents tile the log behind the table, and their bytes are there.

What always holds: the seam is exact, so the first extent holds the table end and each begins where
the one before ends; every segment is looked for; the bytes of all extents, or of a sample, pass
their CRCs and have the offsets that the index says. A segment that went meanwhile, because its
records were copied or committed, is no difference: the index says by then where they are.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakestream_spark.core.errors import Corrupt, NotFound
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.kafka.batch import walk
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.verify.pinned import Pinned, Site
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.fetcher import ExtentFetcher, SegmentGone
from lakestream_spark.wal.ports import ExtentLocation

_PAGE_BYTES: Final = 64 * 1024 * 1024


class Placed(NamedTuple):
    """An extent of a partition."""

    place: TopicPartition
    extent: ExtentLocation

    @property
    def partition(self) -> int:
        return self.place.number


async def extents_of(site: Site, pinned: Pinned) -> list[Placed]:
    """The extents behind the table, which follow one another without a gap."""
    found: list[Placed] = []
    for partition, ends in pinned.ends.items():
        if partition in pinned.asked:
            place = TopicPartition(pinned.topic.id, partition)
            offset = ends.table_end
            while offset < ends.high_watermark:
                page = (await site.metadata.extents.locate(place, offset, _PAGE_BYTES)).extents
                for extent in page:
                    _check_follows(partition, offset, ends.table_end, extent)
                    found.append(Placed(place, extent))
                    offset = extent.next_offset
                if not page:
                    _refuse_gap(partition, offset, ends.high_watermark)
    return found


def _check_follows(partition: int, offset: int, seam: int, extent: ExtentLocation) -> None:
    is_first_behind_table = offset == seam and extent.base_offset <= offset < extent.next_offset
    if extent.base_offset != offset and not is_first_behind_table:
        _refuse_gap(partition, offset, extent.base_offset)


def _refuse_gap(partition: int, first: int, after: int) -> None:
    raise Corrupt(
        "data loss: acknowledged offsets are neither in the table nor in an extent of the WAL",
        partition=partition,
        offsets=f"[{first}, {after})",
    )


async def check_segments(site: Site, placed: Sequence[Placed]) -> int:
    """Whether every segment is in its store and long enough; how many bytes the extents have."""
    needed: dict[tuple[str, object], list[Placed]] = {}
    for each in placed:
        needed.setdefault((each.extent.profile, each.extent.segment_id), []).append(each)
    for own in needed.values():
        last = max(own, key=_end)
        try:
            size = await site.stores[last.extent.profile].head(segment_key(last.extent.segment_id))
        except NotFound as error:
            moved = [now for each in own if (now := await _place_now(site, each, error))]
            await check_segments(site, moved)
            continue
        if size < _end(last):
            raise Corrupt(
                "a WAL segment is shorter than its index says",
                partition=last.partition,
                segment=last.extent.segment_id,
                expected=_end(last),
                actual=size,
            )
    return sum(each.extent.length for each in placed)


def _end(placed: Placed) -> int:
    return placed.extent.position + placed.extent.length


async def check_bytes(site: Site, placed: Sequence[Placed]) -> None:
    """Read the extents: CRCs, and as many offsets as the index says."""
    fetcher = ExtentFetcher(site.stores, WalCache(0))
    for each in placed:
        there: Placed | None = each
        while there is not None:
            try:
                (chunk,) = await fetcher.fetch([there.extent])
            except SegmentGone as gone:
                there = await _place_now(site, there, gone)
                continue
            _check_offsets(there, chunk)
            break


def _check_offsets(placed: Placed, chunk: memoryview) -> None:
    extent = placed.extent
    following = extent.base_offset + sum(
        header.offsets for _, header in walk(chunk, where=str(extent.segment_id))
    )
    if following != extent.next_offset:
        raise Corrupt(
            "an extent does not hold the offsets its index row says",
            partition=placed.partition,
            segment=extent.segment_id,
            expected=f"[{extent.base_offset}, {extent.next_offset})",
            actual=f"[{extent.base_offset}, {following})",
        )


async def _place_now(site: Site, placed: Placed, why: Exception) -> Placed | None:
    """Where an extent was copied to, or None when it is in the table by now; else it is lost."""
    last = placed.extent.next_offset - 1
    found = await site.metadata.extents.locate(placed.place, last, 1)
    if last < found.ends.table_end:
        return None
    for extent in found.extents:
        if extent.base_offset <= last and extent.segment_id != placed.extent.segment_id:
            return Placed(placed.place, extent)
    raise _lost(placed) from why


def _lost(placed: Placed) -> Corrupt:
    extent = placed.extent
    return Corrupt(
        "data loss: the index points at a WAL segment that is not in the store",
        partition=placed.partition,
        offsets=f"[{extent.base_offset}, {extent.next_offset})",
        segment=extent.segment_id,
    )
