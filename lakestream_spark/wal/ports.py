"""What the WAL asks of the metadata store, declared here because the WAL is the caller.

`metadata` implements these on SQLite and PostgreSQL with one code path; the contract suite in
`tests/contract` holds every implementation to the sentences below.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import SegmentId, TopicPartition
from lakestream_spark.wal.receipt import SegmentReceipt
from lakestream_spark.wal.segment import StoredSegment


class Sequencer(Protocol):
    """Gives every batch of a stored segment its offset, in one transaction."""

    async def commit(self, segment: StoredSegment) -> SegmentReceipt:
        """Commit the segment, once: repeating the newest `n` returns the stored answer.

        Raises `Fenced` when the writer's epoch is over or `n` is older than the newest, `Transient`
        when the outcome is unknown (repeat the call). Refused batches are values in the receipt.
        """


class WriterEvents(Protocol):
    """What a writer tells about its work, for metrics and for those who wait for records."""

    def uploaded(self, profile: str, size: int, seconds: float) -> None:
        """A segment of so many bytes is durable."""

    def committed(self, profile: str, ends: Mapping[TopicPartition, int], seconds: float) -> None:
        """A segment is committed; these are the high watermarks it gave its partitions."""

    def failed(self, profile: str, error: Exception) -> None:
        """A segment could not be stored, or the writer stopped."""


class ExtentLocation(NamedTuple):
    """Offsets [base_offset, next_offset) of a partition are these bytes of this segment."""

    base_offset: int
    next_offset: int
    segment_id: SegmentId
    profile: str
    position: int
    length: int
    max_timestamp: int
    transactional: bool


class PartitionEnds(NamedTuple):
    """The borders of a partition at one moment."""

    log_start: int
    table_end: int
    last_stable: int
    high_watermark: int


class Located(NamedTuple):
    """The borders and the next extents of a partition, read in one transaction."""

    ends: PartitionEnds
    extents: tuple[ExtentLocation, ...]


class Wanted(NamedTuple):
    """Extents of a partition from `offset` on, about `max_bytes` of them."""

    partition: TopicPartition
    offset: int
    max_bytes: int


class ExtentIndex(Protocol):
    """Where the bytes of an offset are."""

    async def locate(self, partition: TopicPartition, offset: int, max_bytes: int) -> Located:
        """`locate_many` for one; raises `UnknownTopic`."""

    async def locate_many(self, wanted: Sequence[Wanted]) -> list[Located | UnknownTopic]:
        """For each, the extents from the one that holds its offset on: at least one if any, then
        up to its bytes. All answers come from one snapshot.

        Empty when the offset is the high watermark, or below the table end (the table has it).
        `OffsetOutOfRange` is the reader's judgement, made from the ends.
        """

    async def locate_timestamp(
        self, partition: TopicPartition, timestamp_ms: int, from_offset: int
    ) -> Located:
        """The first extent whose newest record is at or after the time, or none.

        Only extents that end after `from_offset`, the log start and the table end count.
        """

    async def locate_newest(self, partition: TopicPartition) -> Located:
        """The extent that the log start or the table end cuts, if one does, and of those behind it
        the first that holds the newest time: the newest record is in one of the two."""


class ReclaimCandidate(NamedTuple):
    """A committed segment that nothing refers to, or that a minority of its bytes holds."""

    segment_id: SegmentId
    profile: str
    size: int
    live_bytes: int
    created_ms: int


class LiveExtent(NamedTuple):
    """An extent that keeps a segment alive, with the partition it belongs to."""

    partition: TopicPartition
    location: ExtentLocation


class MovedExtent(NamedTuple):
    """An extent's old segment, and its position in the one that an evacuation wrote."""

    partition: TopicPartition
    base_offset: int
    old: SegmentId
    position: int


class SegmentLedger(Protocol):
    """Which segments are referenced, by how much, and whose writers are fenced."""

    async def unreferenced(
        self, profile: str, *, before_ms: int, limit: int
    ) -> list[ReclaimCandidate]:
        """Segments without a live extent since before `before_ms`, oldest first."""

    async def forget(self, segment_ids: list[SegmentId]) -> None:
        """Drop the rows of segments whose objects are deleted; only unreferenced ones go."""

    async def orphans(self, profile: str, found: list[SegmentId]) -> list[SegmentId]:
        """Those of the found objects that are not committed and never can be: their writer's
        epoch is fenced. Fence and row are looked at in one transaction, in that order."""

    async def mostly_dead(
        self, profile: str, *, before_ms: int, max_live_share: float, limit: int
    ) -> list[ReclaimCandidate]:
        """Segments created before `before_ms` with 0 < live bytes <= share * size, oldest first."""

    async def live_extents(self, segment_ids: list[SegmentId]) -> list[LiveExtent]:
        """What keeps these segments alive, by segment and position."""

    async def repoint(self, new: StoredSegment, moved: list[MovedExtent]) -> None:
        """In one transaction guarded by the new segment's writer row, as a commit is: register
        `new`, and point those extents at it that still lie in their old segment. The old segments
        lose those references. `new.extents` is empty; repeating the newest `n` changes nothing.
        `new.created_ms` is the time of the oldest: by it the tables' lag is told."""


class KnownEpochs(NamedTuple):
    """What the metadata store knows of writers: the newest epoch it ever gave out, and the last
    committed `n` of every epoch."""

    newest: int
    last_n: dict[int, int]


class EpochLedger(Protocol):
    """The history of broker epochs."""

    async def epochs(self) -> KnownEpochs:
        """Everything known, in one transaction."""
