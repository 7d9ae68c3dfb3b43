"""Reclaim: WAL objects that nobody needs are deleted, each on its own account.

One run does three bounded things for one profile's store:

    unreferenced   committed, no live extent since before the grace period: object, then row
    orphans        uploaded, never committed, the writer's epoch fenced: found by listing
    evacuation     old segments that a minority of their bytes holds: the live extents of several
                   are copied into one new segment and repointed in one transaction

What always holds
- a segment is deleted only when nothing refers to it, or when nothing ever can;
- the row goes after the object, so a crash between the two is finished by the next run;
- one stuck topic keeps its own bytes alive, never those of others;
- what is damaged stays where it is, for a person to mend, and keeps nothing else from going;
- a segment is as old as the oldest records in it, wherever they lay before: how far a table is
  behind is told by that. It is evacuated again only when half of its bytes are gone.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Corrupt, NotFound
from lakestream_spark.core.ids import SegmentId
from lakestream_spark.core.logs import event
from lakestream_spark.kafka.batch import verify, walk
from lakestream_spark.objectstore.keys import WAL_PREFIX, parse_segment_key, segment_key
from lakestream_spark.objectstore.store import ObjectInfo, ObjectStore
from lakestream_spark.wal.format import ExtentParts, Kind, encode_segment
from lakestream_spark.wal.ports import LiveExtent, MovedExtent, ReclaimCandidate, SegmentLedger
from lakestream_spark.wal.segment import StoredSegment, WriterIdentity

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimPolicy:
    """When a segment may go, and how much one run does."""

    grace_ms: int = 60_000
    evacuate_after_ms: int = 10 * 60_000
    evacuated_span_ms: int = 60_000
    """Only segments of about one age become one: no topic gets the age of another's records."""
    max_live_share: float = 0.5
    max_evacuated_bytes: int = 8 * 1024 * 1024
    max_segments_per_run: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimReport:
    """What one run did."""

    deleted: int
    orphans: int
    evacuated: int
    finished: bool
    """False when a bound was reached and the next run has more to do."""


class Reclaimer:
    """Reclaims one profile's store. `identity` is a registration of its own, never a writer's."""

    def __init__(
        self,
        identity: WriterIdentity,
        policy: ReclaimPolicy,
        *,
        profile: str,
        store: ObjectStore,
        ledger: SegmentLedger,
        clock: Clock,
    ) -> None:
        self._identity = identity
        self._policy = policy
        self._profile = profile
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._n = 0
        self._listing: AsyncIterator[ObjectInfo] | None = None

    async def run_once(self) -> ReclaimReport:
        deleted = await self._delete_unreferenced()
        orphans, listed_all = await self._delete_orphans()
        evacuated, evacuated_all = await self._evacuate()
        finished = listed_all and evacuated_all and deleted < self._policy.max_segments_per_run
        return ReclaimReport(
            deleted=deleted, orphans=orphans, evacuated=evacuated, finished=finished
        )

    async def _delete_unreferenced(self) -> int:
        candidates = await self._ledger.unreferenced(
            self._profile,
            before_ms=self._clock.wall_ms() - self._policy.grace_ms,
            limit=self._policy.max_segments_per_run,
        )
        segment_ids = [candidate.segment_id for candidate in candidates]
        if segment_ids:
            await self._store.delete([segment_key(segment_id) for segment_id in segment_ids])
            await self._ledger.forget(segment_ids)
        return len(segment_ids)

    async def _delete_orphans(self) -> tuple[int, bool]:
        """Look at the next objects of the listing, which goes on in the next run."""
        found, listed_all = await self._list_more()
        orphans = await self._ledger.orphans(self._profile, found) if found else []
        if orphans:
            await self._store.delete([segment_key(segment_id) for segment_id in orphans])
        return len(orphans), listed_all

    async def _list_more(self) -> tuple[list[SegmentId], bool]:
        listing, self._listing = self._listing or self._store.list(WAL_PREFIX), None
        found: list[SegmentId] = []
        async for info in listing:
            segment_id = parse_segment_key(info.key)
            if segment_id is not None:
                found.append(segment_id)
            if len(found) >= self._policy.max_segments_per_run:
                self._listing = listing
                return found, False
        return found, True

    async def _evacuate(self) -> tuple[int, bool]:
        """How many segments were emptied into one, and whether these were all."""
        candidates = await self._ledger.mostly_dead(
            self._profile,
            before_ms=self._clock.wall_ms() - self._policy.evacuate_after_ms,
            max_live_share=self._policy.max_live_share,
            limit=self._policy.max_segments_per_run,
        )
        groups = _groups(candidates, self._policy)
        for group in groups:
            copies = await self._copy(
                await self._ledger.live_extents([one.segment_id for one in group])
            )
            # One whose objects are lost or damaged keeps no other from being emptied.
            if copies:
                copied = {each.location.segment_id for each, _ in copies}
                emptied = [one for one in group if one.segment_id in copied]
                await self._move(copies, created_ms=emptied[0].created_ms)
                return len(emptied), group is groups[-1]
        return 0, True

    async def _copy(self, live: Sequence[LiveExtent]) -> list[tuple[LiveExtent, bytes]]:
        """The bytes of each extent that can be copied, in the order of a new segment."""
        copies: list[tuple[LiveExtent, bytes]] = []
        for segment_id, group in groupby(live, key=lambda each: each.location.segment_id):
            copies += await self._sound(segment_id, list(group))
        return sorted(copies, key=lambda copy: (copy[0].partition, copy[0].location.base_offset))

    async def _sound(
        self, segment_id: SegmentId, own: Sequence[LiveExtent]
    ) -> list[tuple[LiveExtent, bytes]]:
        """The bytes of a segment's extents, checked; damaged ones are left out, and all of them
        when the object is too short or gone meanwhile."""
        try:
            chunks = await self._store.get_ranges(
                segment_key(segment_id),
                [each.location.position for each in own],
                [each.location.length for each in own],
            )
        except NotFound:
            return []
        except Corrupt as error:
            _tell(error)
            return []
        return [
            (each, bytes(chunk))
            for each, chunk in zip(own, chunks, strict=True)
            if _is_sound(each, chunk)
        ]

    async def _move(self, copies: Sequence[tuple[LiveExtent, bytes]], *, created_ms: int) -> None:
        self._n += 1
        segment_id = SegmentId(self._identity.broker_id, self._identity.broker_epoch, self._n)
        encoded = encode_segment(
            segment_id,
            Kind.EVACUATED,
            [_parts(each, chunk) for each, chunk in copies],
            created_ms=created_ms,
        )
        await self._store.put(segment_key(segment_id), encoded.data)
        new = StoredSegment(
            id=segment_id,
            profile=self._profile,
            created_ms=created_ms,
            size=sum(len(chunk) for _, chunk in copies),
            extents=(),
        )
        moved = [
            MovedExtent(
                each.partition, each.location.base_offset, each.location.segment_id, position
            )
            for (each, _), (position, _) in zip(copies, encoded.ranges, strict=True)
        ]
        await self._ledger.repoint(new, moved)


def _is_sound(each: LiveExtent, chunk: memoryview) -> bool:
    location = each.location
    try:
        verify(chunk, where=f"WAL segment {location.segment_id} at {location.position}")
    except Corrupt as error:
        _tell(error)
        return False
    return True


def _tell(error: Corrupt) -> None:
    event(_log, logging.ERROR, "a WAL segment is damaged and cannot be emptied", error=error)


def _groups(
    candidates: Sequence[ReclaimCandidate], policy: ReclaimPolicy
) -> list[list[ReclaimCandidate]]:
    """Candidates, oldest first, as groups that become one segment each: of about one age, and
    not too large."""
    groups: list[list[ReclaimCandidate]] = []
    room = 0
    for candidate in candidates:
        room -= candidate.live_bytes
        if (
            not groups
            or room < 0
            or candidate.created_ms - groups[-1][0].created_ms > policy.evacuated_span_ms
        ):
            groups.append([])
            room = policy.max_evacuated_bytes - candidate.live_bytes
        groups[-1].append(candidate)
    return groups


def _parts(each: LiveExtent, chunk: bytes) -> ExtentParts:
    location = each.location
    return ExtentParts(
        partition=each.partition,
        chunks=[chunk],
        batch_count=sum(1 for _ in walk(chunk, where=str(location.segment_id))),
        record_count=location.next_offset - location.base_offset,
        max_timestamp=location.max_timestamp,
        base_offset=location.base_offset,
    )
