"""The records inside a record batch (message format v2): decode, encode, search by time.

    record  length v | attributes i8 | timestamp delta v | offset delta v
            key length v, key | value length v, value | header count v, header*
    header  key length v, key | value length v, value          (v = zigzag varint, -1 = null)

What always holds: null and empty stay apart, headers keep their order, a decoded batch encodes to
the same records. A batch whose content contradicts its header raises `InvalidBatch`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.batch import (
    APPEND_TIME_FLAG,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_V2,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from lakestream_spark.kafka.codecs import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress

NO_TIMESTAMP: Final = -1

_LEADER_EPOCH: Final = 0
_VARLONG_BITS: Final = 63
_I64_SPAN: Final = 1 << 64
_I64_HALF: Final = 1 << 63
_SMALLEST_RECORD: Final = 7


class RecordHeader(NamedTuple):
    """One header of a record; the key as sent, which need not be UTF-8."""

    key: bytes
    value: bytes | None


class Record(NamedTuple):
    """A record with its place in the partition."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class Producer(NamedTuple):
    """The idempotence fields of a batch; the default is a producer without."""

    id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


NO_IDEMPOTENCE: Final = Producer()


_ALONE: Final = BatchHeader(0, 0, 0, MAGIC_V2, 0, 0, 0, 0, 0, -1, -1, -1, 1)


class TimestampedOffset(NamedTuple):
    """The first offset at or after a time, and that record's own time."""

    offset: int
    timestamp: int


def decode_records(
    data: bytes | memoryview, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """The records of one whole batch, offsets counted from its base offset."""
    codec = Codec(header.codec)
    body = decompress(codec, memoryview(data)[HEADER_BYTES : header.size], max_bytes=max_bytes)
    if not 0 <= header.record_count <= len(body) // _SMALLEST_RECORD:
        raise InvalidBatch("the batch has no room for its records", count=header.record_count)
    try:
        records = _decode_all(bytes(body), header)
    except IndexError as error:
        raise InvalidBatch("the batch ends inside a record", size=len(body)) from error
    _check_offsets(records, header)
    return records


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    append_time: bool = False,
    producer: Producer = NO_IDEMPOTENCE,
) -> bytes:
    """A legal batch of `records`, which are in offset order; it covers [base, last] offset.

    With `append_time` every record has the time of the newest one.
    """
    if not records and (base_offset is None or last_offset is None):
        raise ValueError("a batch without records needs the offsets of the hole it covers")
    base = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    body = bytearray()
    for record in records:
        _encode_record(body, record, base, base_timestamp)
    flags = APPEND_TIME_FLAG * append_time | TRANSACTIONAL_FLAG * producer.transactional
    batch = bytearray(HEADER_BYTES) + compress(codec, memoryview(body))
    header = BatchHeader(
        base_offset=base,
        length=len(batch) - LENGTH_OVERHEAD,
        leader_epoch=_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=codec | flags,
        last_offset_delta=last - base,
        base_timestamp=base_timestamp,
        max_timestamp=max((record.timestamp for record in records), default=NO_TIMESTAMP),
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        record_count=len(records),
    )
    return _summed(batch, header)


def encode_record(record: Record) -> bytes:
    """One record by itself, its time in full and its offset left out."""
    body = bytearray()
    _encode_record(body, record, record.offset, 0)
    return bytes(body)


def decode_record(data: bytes, offset: int) -> Record:
    """The record that `encode_record` encoded, at its offset."""
    length, position = _varint(data, 0)
    record, end = _decode_record(data, position, _ALONE)
    if end != len(data) or end - position != length:
        raise InvalidBatch("an encoded record does not fill its bytes", offset=offset)
    return record._replace(offset=offset)


def first_offset_at_or_after(
    data: bytes | memoryview, header: BatchHeader, timestamp_ms: int, *, from_offset: int = 0
) -> TimestampedOffset | None:
    """The first record of the batch from `from_offset` on that is not before `timestamp_ms`."""
    if header.max_timestamp < timestamp_ms:
        return None
    if header.attributes & APPEND_TIME_FLAG:
        return TimestampedOffset(max(header.base_offset, from_offset), header.max_timestamp)
    for record in decode_records(data, header):
        if record.timestamp >= timestamp_ms and record.offset >= from_offset:
            return TimestampedOffset(record.offset, record.timestamp)
    return None


def newest_offset(
    data: bytes | memoryview, header: BatchHeader, *, from_offset: int = 0
) -> TimestampedOffset | None:
    """The first record of the batch from `from_offset` on that has the newest time of those."""
    if header.attributes & APPEND_TIME_FLAG:
        return TimestampedOffset(max(header.base_offset, from_offset), header.max_timestamp)
    there = (each for each in decode_records(data, header) if each.offset >= from_offset)
    newest = max(there, key=lambda each: each.timestamp, default=None)
    return None if newest is None else TimestampedOffset(newest.offset, newest.timestamp)


def _summed(batch: bytearray, header: BatchHeader) -> bytes:
    """The batch with its header in front and the CRC over both."""
    HEADER.pack_into(batch, 0, *header)
    crc = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, *header._replace(crc=crc))
    return bytes(batch)


def _decode_all(body: bytes, header: BatchHeader) -> list[Record]:
    records: list[Record] = []
    position = 0
    for _ in range(header.record_count):
        length, position = _varint(body, position)
        end = position + length
        if length < 0 or end > len(body):
            raise InvalidBatch("a record reaches beyond its batch", length=length)
        record, position = _decode_record(body, position, header)
        if position != end:
            raise InvalidBatch("a record's fields do not fill its length", length=length)
        records.append(record)
    if position != len(body):
        raise InvalidBatch("bytes are left over after the records", left=len(body) - position)
    return records


def _decode_record(body: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    timestamp_delta, position = _varint(body, position + 1)
    offset_delta, position = _varint(body, position)
    key, position = _nullable_bytes(body, position)
    value, position = _nullable_bytes(body, position)
    count, position = _varint(body, position)
    if not 0 <= count <= (len(body) - position) // 2:
        raise InvalidBatch("a record has no room for its headers", count=count)
    headers: list[RecordHeader] = []
    for _ in range(count):
        header_key, position = _nullable_bytes(body, position)
        if header_key is None:
            raise InvalidBatch("a header key is null")
        header_value, position = _nullable_bytes(body, position)
        headers.append(RecordHeader(header_key, header_value))
    if header.attributes & APPEND_TIME_FLAG:
        timestamp = header.max_timestamp
    else:
        timestamp = _wrap_i64(header.base_timestamp + timestamp_delta)
    offset = header.base_offset + offset_delta
    return Record(offset, timestamp, key, value, tuple(headers)), position


def _check_offsets(records: list[Record], header: BatchHeader) -> None:
    previous = header.base_offset - 1
    for record in records:
        if not previous < record.offset < header.base_offset + header.offsets:
            raise InvalidBatch(
                "the offsets of the batch do not rise within its range",
                offset_delta=record.offset - header.base_offset,
                last_offset_delta=header.last_offset_delta,
            )
        previous = record.offset


def _nullable_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(body, position)
    if length == -1:
        return None, position
    end = position + length
    if length < -1 or end > len(body):
        raise InvalidBatch("a field reaches beyond its batch", length=length)
    return body[position:end], end


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """The zigzag varint at `position` and the position after it; IndexError at the end."""
    byte = body[position]
    raw = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > _VARLONG_BITS:
            raise InvalidBatch("a varint is longer than ten bytes", position=position)
        position += 1
        byte = body[position]
        raw |= (byte & 0x7F) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), position + 1


def _encode_record(body: bytearray, record: Record, base: int, base_timestamp: int) -> None:
    fields = bytearray(1)
    _put_varint(fields, _wrap_i64(record.timestamp - base_timestamp))
    _put_varint(fields, record.offset - base)
    _put_nullable_bytes(fields, record.key)
    _put_nullable_bytes(fields, record.value)
    _put_varint(fields, len(record.headers))
    for key, value in record.headers:
        _put_nullable_bytes(fields, key)
        _put_nullable_bytes(fields, value)
    _put_varint(body, len(fields))
    body += fields


def _put_nullable_bytes(buffer: bytearray, value: bytes | None) -> None:
    if value is None:
        buffer.append(1)  # the varint -1
        return
    _put_varint(buffer, len(value))
    buffer += value


def _put_varint(buffer: bytearray, value: int) -> None:
    raw = (value << 1) ^ (value >> _VARLONG_BITS)
    while raw > 0x7F:
        buffer.append(raw & 0x7F | 0x80)
        raw >>= 7
    buffer.append(raw)


def _wrap_i64(value: int) -> int:
    """As 64-bit arithmetic has it: times may lie further apart than a delta can say."""
    return (value + _I64_HALF) % _I64_SPAN - _I64_HALF
