"""What the benchmarks write: batches with real bytes for the data path, segments without bytes for
the metadata store. Both are made before the clock starts."""

import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from lakestream_spark.core.ids import SegmentId, TopicId, TopicPartition
from lakestream_spark.kafka.batch import CRC_START, LENGTH_OVERHEAD, MAGIC_V2, BatchHeader
from lakestream_spark.wal.format import HEADER_BYTES
from lakestream_spark.wal.segment import SegmentExtent, StoredSegment, WriterIdentity
from tests.support.batches import make_batch

NO_PRODUCER: Final = -1
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_RECORD_OVERHEAD: Final = 10


def producer_batches(
    count: int, *, record_bytes: int, batch_bytes: int, producer_id: int
) -> list[bytes]:
    """The batches an idempotent producer sends to one partition, one after the other."""
    records = max(1, batch_bytes // (record_bytes + _RECORD_OVERHEAD))
    template = bytearray(make_batch([os.urandom(record_bytes) for _ in range(records)]))
    batches: list[bytes] = []
    for number in range(count):
        _PRODUCER.pack_into(template, _PRODUCER_AT, producer_id, 0, number * records)
        _CRC.pack_into(template, _CRC_AT, crc32c(memoryview(template)[CRC_START:]))
        batches.append(bytes(template))
    return batches


class Spread(NamedTuple):
    """One batch of the same kind for each of these partitions, in every segment."""

    topic_id: TopicId
    partitions: Sequence[int]
    records: int = 3
    batch_bytes: int = 2_500
    producer_id: int = NO_PRODUCER


def segment(
    writer: WriterIdentity, n: int, spread: Spread, *, round_: int, created_ms: int = 0
) -> StoredSegment:
    """A segment as the sequencer sees it; `round_` counts the producer's batches from 0."""
    header = _header(spread, round_, created_ms)
    extents: list[SegmentExtent] = []
    position = HEADER_BYTES
    for index in spread.partitions:
        # A header of its own for each batch, as parsing gives.
        batch = (header._replace(crc=index),)
        partition = TopicPartition(spread.topic_id, index)
        extents.append(SegmentExtent(partition, position, spread.batch_bytes, batch))
        position += spread.batch_bytes
    return StoredSegment(
        id=SegmentId(writer.broker_id, writer.broker_epoch, n),
        profile=writer.profile,
        created_ms=created_ms,
        size=position,
        extents=tuple(extents),
    )


def _header(spread: Spread, round_: int, timestamp_ms: int) -> BatchHeader:
    idempotent = spread.producer_id >= 0
    return BatchHeader(
        base_offset=0,
        length=spread.batch_bytes - LENGTH_OVERHEAD,
        leader_epoch=0,
        magic=MAGIC_V2,
        crc=0,
        attributes=0,
        last_offset_delta=spread.records - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=spread.producer_id,
        producer_epoch=0 if idempotent else -1,
        base_sequence=round_ * spread.records if idempotent else -1,
        record_count=spread.records,
    )
