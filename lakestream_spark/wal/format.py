"""WAL segment format v1: encode and decode. FORMAT.md is the specification.

Every byte is covered by a checksum: the header and the footer by their own, each extent by the one
in the index, the index by the one in the footer; the extents tile the body without a gap.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from lakestream_spark.core.errors import Corrupt, UnsupportedVersion
from lakestream_spark.core.ids import BrokerId, SegmentId, TopicId, TopicPartition
from lakestream_spark.wal.receipt import SegmentReceipt, decode_receipt, encode_receipt

VERSION: Final = 1
MAGIC: Final = b"LKSTRWAL"
END_MAGIC: Final = b"LKSTREND"
UNKNOWN_OFFSET: Final = -1

_HEADER: Final = struct.Struct(">8sHHiqqqI")
_CRC: Final = struct.Struct(">I")
_TOPIC: Final = struct.Struct(">16sI")
_COUNT: Final = struct.Struct(">I")
_ENTRY: Final = struct.Struct(">iqIIIqI")
_FOOTER: Final = struct.Struct(">QIIHH")

HEADER_BYTES: Final = _HEADER.size + _CRC.size  # 48
FOOTER_BYTES: Final = _FOOTER.size + _CRC.size + len(END_MAGIC)  # 32


class Kind(IntEnum):
    """Why a segment was written."""

    PRODUCED = 0
    EVACUATED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentParts:
    """One extent about to be written: its bytes in chunks, and what the index says of them."""

    partition: TopicPartition
    chunks: Sequence[bytes | memoryview]
    batch_count: int
    record_count: int
    max_timestamp: int
    base_offset: int = UNKNOWN_OFFSET


class EncodedSegment(NamedTuple):
    """The bytes of a segment and (position, length) of each extent, in the order given."""

    data: bytes
    ranges: tuple[tuple[int, int], ...]


class IndexEntry(NamedTuple):
    """What a segment's own index says of one extent."""

    partition: TopicPartition
    position: int
    length: int
    base_offset: int
    batch_count: int
    record_count: int
    max_timestamp: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIndex:
    """A segment's header and index."""

    id: SegmentId
    kind: Kind
    created_ms: int
    entries: tuple[IndexEntry, ...]
    receipts: tuple[SegmentReceipt, ...] = field(default=())


def encode_segment(
    segment_id: SegmentId,
    kind: Kind,
    extents: Sequence[ExtentParts],
    *,
    created_ms: int,
    receipts: Sequence[SegmentReceipt] = (),
) -> EncodedSegment:
    """The object's bytes. Extents of one topic must be neighbours."""
    header = _HEADER.pack(MAGIC, VERSION, kind, *segment_id, created_ms, 0)
    chunks: list[bytes | memoryview] = [header, _CRC.pack(crc32c(header))]
    ranges: list[tuple[int, int]] = []
    entries: list[tuple[TopicId, bytes]] = []
    position = HEADER_BYTES
    for extent in extents:
        length, crc = 0, 0
        for chunk in extent.chunks:
            length += len(chunk)
            crc = crc32c(chunk, crc)
        chunks.extend(extent.chunks)
        ranges.append((position, length))
        entries.append((extent.partition.topic_id, _entry(extent, length, crc)))
        position += length
    index = _encode_index(entries, receipts)
    footer = _FOOTER.pack(position, len(index), crc32c(index), VERSION, 0)
    chunks += [index, footer, _CRC.pack(crc32c(footer)), END_MAGIC]
    return EncodedSegment(b"".join(chunks), tuple(ranges))


def _entry(extent: ExtentParts, length: int, crc: int) -> bytes:
    return _ENTRY.pack(
        extent.partition.number,
        extent.base_offset,
        length,
        extent.batch_count,
        extent.record_count,
        extent.max_timestamp,
        crc,
    )


def _encode_index(
    entries: Sequence[tuple[TopicId, bytes]], receipts: Sequence[SegmentReceipt]
) -> bytes:
    topics = [
        (topic_id, [entry for _, entry in group])
        for topic_id, group in groupby(entries, key=lambda pair: pair[0])
    ]
    parts = [_COUNT.pack(len(topics))]
    for topic_id, own in topics:
        parts.append(_TOPIC.pack(topic_id.bytes, len(own)))
        parts.extend(own)
    parts.append(_COUNT.pack(len(receipts)))
    parts.extend(encode_receipt(receipt) for receipt in receipts)
    return b"".join(parts)


def decode_segment(data: bytes | memoryview, *, where: str) -> SegmentIndex:
    """Header and index of a whole segment, after checking every byte of it."""
    view = memoryview(data)
    index = decode_index(view[:HEADER_BYTES], view, object_size=len(view), where=where)
    for entry in index.entries:
        if crc32c(view[entry.position : entry.position + entry.length]) != entry.crc:
            raise Corrupt(
                "an extent of a WAL segment fails its CRC",
                where=where,
                partition=entry.partition,
                position=entry.position,
            )
    return index


def index_range(tail: bytes | memoryview, *, object_size: int, where: str) -> tuple[int, int]:
    """Start and end of the index (footer excluded), told by an object's last bytes."""
    view = memoryview(tail)
    if object_size < HEADER_BYTES + FOOTER_BYTES or len(view) < FOOTER_BYTES:
        raise Corrupt("the WAL segment is truncated", where=where, size=object_size)
    footer = view[-FOOTER_BYTES:]
    if bytes(footer[-len(END_MAGIC) :]) != END_MAGIC:
        raise Corrupt("the WAL segment is truncated or its end is damaged", where=where)
    (crc,) = _CRC.unpack_from(footer, _FOOTER.size)
    position, length, _, version, reserved = _FOOTER.unpack_from(footer)
    if crc32c(footer[: _FOOTER.size]) != crc:
        raise Corrupt("the WAL segment's footer fails its CRC", where=where)
    _check_version(version, where)
    if reserved or position < HEADER_BYTES or position + length + FOOTER_BYTES != object_size:
        raise Corrupt(
            "the WAL segment's footer does not fit its size", where=where, size=object_size
        )
    return position, position + length


def decode_index(
    header: bytes | memoryview, tail: bytes | memoryview, *, object_size: int, where: str
) -> SegmentIndex:
    """Header and index, from the object's first bytes and a tail that reaches back to the index."""
    segment_id, kind, created_ms = _decode_header(memoryview(header), where)
    view = memoryview(tail)
    start, end = index_range(view, object_size=object_size, where=where)
    tail_start = object_size - len(view)
    if start < tail_start:
        raise ValueError("the tail does not reach back to the index: read from index_range on")
    index = view[start - tail_start : end - tail_start]
    (expected,) = struct.unpack_from(">I", view, len(view) - FOOTER_BYTES + 12)
    if crc32c(index) != expected:
        raise Corrupt("the WAL segment's index fails its CRC", where=where)
    try:
        entries, position = _decode_entries(index, start)
        receipts = _decode_receipts(index, position)
    except (struct.error, ValueError) as error:
        raise Corrupt("the WAL segment's index cannot be read", where=where) from error
    if (entries[-1].position + entries[-1].length if entries else HEADER_BYTES) != start:
        raise Corrupt("the WAL segment's extents do not tile its body", where=where)
    return SegmentIndex(
        id=segment_id, kind=kind, created_ms=created_ms, entries=entries, receipts=receipts
    )


def _check_version(version: int, where: str) -> None:
    if version != VERSION:
        raise UnsupportedVersion(
            f"the WAL segment has format version {version}, this software reads {VERSION}: upgrade",
            where=where,
        )


def _decode_header(header: memoryview, where: str) -> tuple[SegmentId, Kind, int]:
    if len(header) < HEADER_BYTES:
        raise Corrupt("the WAL segment is truncated", where=where, size=len(header))
    magic, version, kind, broker_id, epoch, n, created_ms, reserved = _HEADER.unpack_from(header)
    if magic != MAGIC:
        raise Corrupt("the object is not a WAL segment", where=where, magic=bytes(magic))
    (crc,) = _CRC.unpack_from(header, _HEADER.size)
    if crc32c(header[: _HEADER.size]) != crc:
        raise Corrupt("the WAL segment's header fails its CRC", where=where)
    _check_version(version, where)
    if reserved or kind not in Kind._value2member_map_:
        raise Corrupt("the WAL segment's header is not legal", where=where, kind=kind)
    return SegmentId(BrokerId(broker_id), epoch, n), Kind(kind), created_ms


def _decode_entries(index: memoryview, body_end: int) -> tuple[tuple[IndexEntry, ...], int]:
    (topic_count,) = _COUNT.unpack_from(index)
    cursor, position = _COUNT.size, HEADER_BYTES
    entries: list[IndexEntry] = []
    for _ in range(topic_count):
        raw_id, extent_count = _TOPIC.unpack_from(index, cursor)
        cursor += _TOPIC.size
        topic_id = TopicId(UUID(bytes=raw_id))
        for _ in range(extent_count):
            number, base, length, batches, records, timestamp, crc = _ENTRY.unpack_from(
                index, cursor
            )
            cursor += _ENTRY.size
            partition = TopicPartition(topic_id, number)
            entries.append(
                IndexEntry(partition, position, length, base, batches, records, timestamp, crc)
            )
            position += length
            if position > body_end:
                raise ValueError("an extent reaches beyond the body")
    return tuple(entries), cursor


def _decode_receipts(index: memoryview, cursor: int) -> tuple[SegmentReceipt, ...]:
    (count,) = _COUNT.unpack_from(index, cursor)
    cursor += _COUNT.size
    receipts: list[SegmentReceipt] = []
    for _ in range(count):
        receipt, cursor = decode_receipt(index, cursor)
        receipts.append(receipt)
    if cursor != len(index):
        raise ValueError("bytes are left over after the receipts")
    return tuple(receipts)
