"""The WAL against its index: extents tile the log behind the table, and their bytes are there.

What always holds: the seam is exact, so the first extent holds the table end and each begins where
the one before ends; every segment is looked for; the bytes of all extents, or of a sample, pass
their CRCs and have the offsets that the index says.
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

    partition: int
    extent: ExtentLocation


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
                    found.append(Placed(partition, extent))
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
    needed: dict[tuple[str, object], Placed] = {}
    for each in placed:
        key = (each.extent.profile, each.extent.segment_id)
        if key not in needed or _end(needed[key]) < _end(each):
            needed[key] = each
    for each in needed.values():
        try:
            size = await site.stores[each.extent.profile].head(segment_key(each.extent.segment_id))
        except NotFound as error:
            raise _lost(each) from error
        if size < _end(each):
            raise Corrupt(
                "a WAL segment is shorter than its index says",
                partition=each.partition,
                segment=each.extent.segment_id,
                expected=_end(each),
                actual=size,
            )
    return sum(each.extent.length for each in placed)


def _end(placed: Placed) -> int:
    return placed.extent.position + placed.extent.length


async def check_bytes(site: Site, placed: Sequence[Placed]) -> None:
    """Read the extents: CRCs, and as many offsets as the index says."""
    fetcher = ExtentFetcher(site.stores, WalCache(0))
    for each in placed:
        try:
            (chunk,) = await fetcher.fetch([each.extent])
        except SegmentGone as gone:
            raise _lost(each) from gone
        extent = each.extent
        following = extent.base_offset + sum(
            header.offsets for _, header in walk(chunk, where=str(extent.segment_id))
        )
        if following != extent.next_offset:
            raise Corrupt(
                "an extent does not hold the offsets its index row says",
                partition=each.partition,
                segment=extent.segment_id,
                expected=f"[{extent.base_offset}, {extent.next_offset})",
                actual=f"[{extent.base_offset}, {following})",
            )


def _lost(placed: Placed) -> Corrupt:
    extent = placed.extent
    return Corrupt(
        "data loss: the index points at a WAL segment that is not in the store",
        partition=placed.partition,
        offsets=f"[{extent.base_offset}, {extent.next_offset})",
        segment=extent.segment_id,
    )
