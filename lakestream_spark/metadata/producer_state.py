"""What is remembered of one idempotent producer in one partition, and Kafka's rules about it.

    batches    batch*, oldest first, at most five
    batch      first sequence i32 | last sequence i32 | base offset i64

What always holds: the batches kept are the last ones accepted, of one epoch, with consecutive
sequences (which wrap from 2^31-1 to 0), so that a repeated batch gets its first answer even when
its extent is long gone. They stay in their stored form: a commit reads and writes thousands.
"""

import struct
from typing import Final, TypeAlias

from lakestream_spark.kafka.batch import BatchHeader
from lakestream_spark.wal.receipt import BatchAnswer, Verdict

WINDOW: Final = 5
NO_OFFSET: Final = -1
_BATCH: Final = struct.Struct(">iiq")
_KEPT_BYTES: Final = (WINDOW - 1) * _BATCH.size
_LAST_SEQUENCE: Final = struct.Struct(">4xi8x")
_SEQUENCES: Final = 1 << 31

_STALE: Final = BatchAnswer(Verdict.STALE_EPOCH, NO_OFFSET)
_OUT_OF_ORDER: Final = BatchAnswer(Verdict.OUT_OF_ORDER, NO_OFFSET)


ProducerState: TypeAlias = tuple[int, bytes]
"""A producer's epoch and its last accepted batches, encoded."""


def advance(
    state: ProducerState | None, header: BatchHeader, base_offset: int
) -> ProducerState | BatchAnswer:
    """The state after the batch was given `base_offset`, or why it cannot be accepted next."""
    first = header.base_sequence
    last = (first + header.last_offset_delta) % _SEQUENCES
    if state is None:
        return header.producer_epoch, _BATCH.pack(first, last, base_offset)
    epoch, batches = state
    if header.producer_epoch != epoch:
        if header.producer_epoch < epoch:
            return _STALE
        if first != 0:
            return _OUT_OF_ORDER
        return header.producer_epoch, _BATCH.pack(first, last, base_offset)
    (newest,) = _LAST_SEQUENCE.unpack_from(batches, len(batches) - _BATCH.size)
    if first == (newest + 1) % _SEQUENCES:
        return epoch, batches[-_KEPT_BYTES:] + _BATCH.pack(first, last, base_offset)
    for known_first, known_last, known_offset in _BATCH.iter_unpack(batches):
        if (known_first, known_last) == (first, last):
            return BatchAnswer(Verdict.DUPLICATE, known_offset)
    return _OUT_OF_ORDER
