"""Stored segments for tests of the metadata store, made without bytes, and their answers; and a
deletion that stops half-way."""

from collections.abc import Sequence
from unittest.mock import patch

import pytest

from lakestream_spark.core.ids import SegmentId, TopicId, TopicPartition
from lakestream_spark.kafka.batch import LENGTH_OVERHEAD, MAGIC_V2, TRANSACTIONAL_FLAG, BatchHeader
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.remains import Remains
from lakestream_spark.wal.format import HEADER_BYTES
from lakestream_spark.wal.receipt import BatchAnswer, SegmentReceipt
from lakestream_spark.wal.segment import SegmentExtent, StoredSegment, Withdrawn, WriterIdentity

TIMESTAMP_MS = 1_700_000_000_000


def header(
    records: int = 1,
    *,
    producer: int = -1,
    epoch: int | None = None,
    sequence: int = -1,
    timestamp: int = TIMESTAMP_MS,
    size: int = 100,
    transactional: bool = False,
) -> BatchHeader:
    """A batch's header as the sequencer sees it; the epoch of a producer is 0 unless given."""
    return BatchHeader(
        base_offset=0,
        length=size - LENGTH_OVERHEAD,
        leader_epoch=0,
        magic=MAGIC_V2,
        crc=0,
        attributes=TRANSACTIONAL_FLAG if transactional else 0,
        last_offset_delta=records - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=(0 if producer >= 0 else -1) if epoch is None else epoch,
        base_sequence=sequence,
        record_count=records,
    )


def stored(
    writer: WriterIdentity,
    n: int,
    *extents: tuple[TopicPartition, Sequence[BatchHeader]],
    created_ms: int = TIMESTAMP_MS,
    withdrawn: Sequence[Withdrawn] = (),
) -> StoredSegment:
    """A segment with one extent per partition, in the order given."""
    placed: list[SegmentExtent] = []
    position = HEADER_BYTES
    for partition, batches in extents:
        length = sum(batch.size for batch in batches)
        placed.append(SegmentExtent(partition, position, length, tuple(batches)))
        position += length
    return StoredSegment(
        id=SegmentId(writer.broker_id, writer.broker_epoch, n),
        profile=writer.profile,
        created_ms=created_ms,
        size=position + 50,
        extents=tuple(placed),
        withdrawn=frozenset(withdrawn),
    )


def answers(segment: StoredSegment, receipt: SegmentReceipt) -> list[list[BatchAnswer]]:
    """The answer of each batch, by extent."""
    return [
        own.answers([batch.offsets for batch in extent.batches])
        for extent, own in zip(segment.extents, receipt.extents, strict=True)
    ]


async def die_while_deleting(metadata: Metadata, topic_id: TopicId) -> None:
    """Delete a topic and die before anything of what it leaves behind is forgotten."""
    with (
        patch.object(Remains, "forget_topic", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        await metadata.topics.delete(topic_id)
