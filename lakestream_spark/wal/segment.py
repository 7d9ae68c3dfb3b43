"""The states of a WAL segment: open, sealed, stored.

What cannot be done yet has no method: only an `OpenSegment` takes batches, only a `SealedSegment`
can be uploaded, only a `StoredSegment` can be committed.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from lakestream_spark.core.ids import BrokerId, SegmentId, TopicPartition
from lakestream_spark.kafka.batch import BatchHeader, CheckedBatch
from lakestream_spark.wal.format import ExtentParts, Kind, encode_segment
from lakestream_spark.wal.receipt import SegmentReceipt


class WriterIdentity(NamedTuple):
    """Who writes segments: a broker's registration for one profile, valid until it is fenced."""

    broker_id: BrokerId
    broker_epoch: int
    profile: str


class SegmentExtent(NamedTuple):
    """The run of one partition's batches inside a segment, as the sequencer sees it."""

    partition: TopicPartition
    position: int
    length: int
    batches: tuple[BatchHeader, ...]


class Withdrawn(NamedTuple):
    """A producer whose earlier batch failed for good: its batches here must be refused."""

    partition: TopicPartition
    producer_id: int


class Place(NamedTuple):
    """Where an open segment put a caller's batches: [first, end) of the partition's."""

    partition: TopicPartition
    first: int
    end: int


class OpenSegment:
    """Collects batches by partition, in arrival order within each."""

    __slots__ = ("_batches", "_bytes")

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, list[CheckedBatch]] = {}
        self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, partition: TopicPartition, batches: list[CheckedBatch]) -> Place:
        """Take the batches; their buffers must stay as they are until the segment is stored."""
        own = self._batches.get(partition)
        if own is None:
            own = self._batches[partition] = []
        place = Place(partition, len(own), len(own) + len(batches))
        own.extend(batches)
        for batch in batches:
            self._bytes += len(batch.data)
        return place

    def seal(
        self,
        segment_id: SegmentId,
        profile: str,
        *,
        created_ms: int,
        receipts: tuple[SegmentReceipt, ...] = (),
    ) -> "SealedSegment":
        """The finished object. No records, no segment: an empty one cannot be sealed."""
        if not self._batches:
            raise ValueError("an empty segment is never sealed")
        ordered = sorted(self._batches.items())
        parts = [
            ExtentParts(
                partition=partition,
                chunks=[batch.data for batch in batches],
                batch_count=len(batches),
                record_count=sum(batch.header.offsets for batch in batches),
                max_timestamp=max(batch.header.max_timestamp for batch in batches),
            )
            for partition, batches in ordered
        ]
        encoded = encode_segment(
            segment_id, Kind.PRODUCED, parts, created_ms=created_ms, receipts=receipts
        )
        extents = tuple(
            SegmentExtent(
                partition=partition,
                position=position,
                length=length,
                batches=tuple(batch.header for batch in batches),
            )
            for (partition, batches), (position, length) in zip(
                ordered, encoded.ranges, strict=True
            )
        )
        return SealedSegment(
            id=segment_id,
            profile=profile,
            created_ms=created_ms,
            extents=extents,
            data=encoded.data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSegment:
    """The bytes of a segment, complete and immutable, not yet in the store."""

    id: SegmentId
    profile: str
    created_ms: int
    extents: tuple[SegmentExtent, ...]
    data: bytes = field(repr=False)

    def stored(self) -> "StoredSegment":
        """Called by `upload` alone, after the object is durable."""
        return StoredSegment(
            id=self.id,
            profile=self.profile,
            created_ms=self.created_ms,
            size=sum(extent.length for extent in self.extents),
            extents=self.extents,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """A segment that is whole in the object store and can be committed.

    `size` is the bytes of its extents: what of it is still alive is measured against that.
    """

    id: SegmentId
    profile: str
    created_ms: int
    size: int
    extents: tuple[SegmentExtent, ...]
    withdrawn: frozenset[Withdrawn] = frozenset()
