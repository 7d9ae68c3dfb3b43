"""The record batch header (message format v2): parse, check, stamp.

    0  base offset i64   12 leader epoch i32  21 attributes i16        43 producer id i64
    8  length i32        16 magic i8          23 last offset delta i32 51 producer epoch i16
                         17 CRC32C u32        27 base timestamp i64    53 base sequence i32
                                              35 max timestamp i64     57 record count i32
    61 records (perhaps compressed)

The CRC covers everything from the attributes on; base offset and leader epoch lie outside, so a
stored batch gets its offset when it is read. A batch is never decompressed here.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from lakestream_spark.core.errors import (
    BatchTooLarge,
    Corrupt,
    DamagedBatch,
    InvalidBatch,
    UnsupportedMagic,
)

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size  # 61
LENGTH_OVERHEAD: Final = 12  # base offset and the length field itself
CRC_START: Final = 21
MAGIC_V2: Final = 2

CODEC_MASK: Final = 0x07
APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
_LEGAL_ATTRIBUTES: Final = CODEC_MASK | APPEND_TIME_FLAG | TRANSACTIONAL_FLAG
_LAST_CODEC: Final = 4

_PREFIX: Final = struct.Struct(">qiib")
_STAMP: Final = struct.Struct(">qii")
STAMP_BYTES: Final = _STAMP.size
_SPAN: Final = struct.Struct(">hi")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")


class BatchHeader(NamedTuple):
    """A parsed header; the fields are those of the wire, in its order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def offsets(self) -> int:
        """How many offsets the batch takes."""
        return self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)


class CheckedBatch(NamedTuple):
    """One batch that passed every check a producer's batch must pass."""

    header: BatchHeader
    data: memoryview


def check(records: bytes | memoryview, *, max_message_bytes: int) -> list[CheckedBatch]:
    """The batches in a producer's record set, each checked; raises `Rejected` with the reason.

    The result holds views into `records`: the caller keeps the buffer until it is written.
    """
    view = memoryview(records)
    batches: list[CheckedBatch] = []
    position = 0
    while position < len(view):
        batch = _check_one(view[position:], max_message_bytes)
        batches.append(batch)
        position += len(batch.data)
    if not batches:
        raise InvalidBatch("the record set is empty: send at least one record batch")
    return batches


def _check_one(view: memoryview, max_message_bytes: int) -> CheckedBatch:
    if len(view) < _PREFIX.size:
        raise InvalidBatch("the record set ends inside a batch header", left=len(view))
    _, length, _, magic = _PREFIX.unpack_from(view)
    if magic != MAGIC_V2:
        raise UnsupportedMagic("only record batches of message format v2 are kept", magic=magic)
    size = length + LENGTH_OVERHEAD
    if size < HEADER_BYTES or size > len(view):
        raise InvalidBatch("the batch length does not fit the bytes sent", length=length)
    if size > max_message_bytes:
        raise BatchTooLarge(
            "the batch is above max.message.bytes", size=size, max=max_message_bytes
        )
    header = BatchHeader._make(HEADER.unpack_from(view))
    _check_fields(header)
    data = view[:size]
    actual = crc32c(data[CRC_START:])
    if actual != header.crc:
        raise DamagedBatch("the batch's CRC does not match its bytes", crc=header.crc, bytes=actual)
    return CheckedBatch(header, data)


def _check_fields(header: BatchHeader) -> None:
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        raise InvalidBatch(
            "the batch's record count does not match its last offset delta",
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
        )
    if header.attributes & ~_LEGAL_ATTRIBUTES or header.codec > _LAST_CODEC:
        raise InvalidBatch(
            "the batch's attributes are not legal here", attributes=header.attributes
        )
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidBatch(
            "a batch with a producer id needs an epoch and a sequence",
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
    if header.producer_id < -1 or (header.producer_id == -1 and header.transactional):
        raise InvalidBatch("the batch's producer id is not legal", producer_id=header.producer_id)


def walk(data: bytes | memoryview, *, where: str) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each stored batch; raises `Corrupt` when the bytes do not tile."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        if len(view) - position < HEADER_BYTES:
            raise Corrupt("stored bytes end inside a batch header", where=where, position=position)
        header = BatchHeader._make(HEADER.unpack_from(view, position))
        if header.magic != MAGIC_V2 or not HEADER_BYTES <= header.size <= len(view) - position:
            raise Corrupt("stored bytes are not a record batch", where=where, position=position)
        yield position, header
        position += header.size


def verify(data: bytes | memoryview, *, where: str) -> None:
    """Raise `Corrupt` unless `data` is whole batches whose CRCs match."""
    view = memoryview(data)
    for position, header in walk(view, where=where):
        if crc32c(view[position + CRC_START : position + header.size]) != header.crc:
            raise Corrupt("a stored batch fails its CRC", where=where, position=position)


def stamp(base_offset: int, length: int) -> bytes:
    """The first `STAMP_BYTES` of a batch at its offset, epoch 0; they lie outside the CRC."""
    return _STAMP.pack(base_offset, length, 0)


def restamp_append_time(batch: CheckedBatch, append_time_ms: int) -> CheckedBatch:
    """A copy of the batch whose records all carry `append_time_ms`, summed again.

    With append time readers take the max timestamp for every record, so that no record is touched.
    """
    data = bytearray(batch.data)
    _SPAN.pack_into(
        data, CRC_START, batch.header.attributes | APPEND_TIME_FLAG, batch.header.last_offset_delta
    )
    _MAX_TIMESTAMP.pack_into(data, 35, append_time_ms)
    _CRC.pack_into(data, 17, crc32c(memoryview(data)[CRC_START:]))
    return CheckedBatch(BatchHeader._make(HEADER.unpack_from(data)), memoryview(data))
