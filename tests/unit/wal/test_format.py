"""WAL segment format v1: golden bytes, and every kind of damage is noticed and named."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

import lakestream_spark.wal
from lakestream_spark.core.errors import Corrupt, UnsupportedVersion
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.wal.format import (
    FOOTER_BYTES,
    HEADER_BYTES,
    Kind,
    decode_index,
    decode_segment,
    index_range,
)
from lakestream_spark.wal.segment import OpenSegment
from tests.support.segments import (
    GOLDEN_CREATED_MS,
    GOLDEN_ID,
    GOLDEN_RECEIPTS,
    TOPIC_A,
    TOPIC_B,
    golden_segment,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "wal_segment_v1.bin"
FORMAT_MD = Path(lakestream_spark.wal.__file__).parent / "FORMAT.md"


def hex_dump(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        left, right = (" ".join(f"{byte:02x}" for byte in half) for half in (row[:8], row[8:]))
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:04x}  {left:<23}  {right:<23}  {text}")
    return "\n".join(lines)


def test_the_bytes_written_today_are_the_golden_bytes() -> None:
    assert golden_segment().data == GOLDEN.read_bytes()


def test_the_specification_dumps_the_golden_bytes() -> None:
    assert hex_dump(GOLDEN.read_bytes()) in FORMAT_MD.read_text()


def test_golden_bytes_read_back_as_what_was_written() -> None:
    data = GOLDEN.read_bytes()
    index = decode_segment(data, where="golden")
    assert (index.id, index.kind, index.created_ms) == (GOLDEN_ID, Kind.PRODUCED, GOLDEN_CREATED_MS)
    assert index.receipts == GOLDEN_RECEIPTS
    assert [(e.partition, e.batch_count, e.record_count, e.base_offset) for e in index.entries] == [
        (TopicPartition(TOPIC_A, 0), 1, 1, -1),
        (TopicPartition(TOPIC_A, 1), 2, 3, -1),
        (TopicPartition(TOPIC_B, 0), 1, 1, -1),
    ]
    assert [(e.position, e.length) for e in index.entries] == [
        (e.position, e.length) for e in golden_segment().extents
    ]


def test_the_index_alone_can_be_read_from_header_and_tail() -> None:
    data = GOLDEN.read_bytes()
    start, _ = index_range(data[-FOOTER_BYTES:], object_size=len(data), where="golden")
    index = decode_index(data[:HEADER_BYTES], data[start:], object_size=len(data), where="golden")
    assert index == decode_segment(data, where="golden")


@pytest.mark.parametrize("bit", range(8))
def test_any_flipped_bit_is_detected(bit: int) -> None:
    data = bytearray(GOLDEN.read_bytes())
    for at in range(len(data)):
        data[at] ^= 1 << bit
        with pytest.raises(Corrupt) as caught:
            decode_segment(bytes(data), where="damaged object")
        assert "damaged object" in str(caught.value)
        data[at] ^= 1 << bit


def test_any_truncation_is_detected() -> None:
    data = GOLDEN.read_bytes()
    for size in range(len(data)):
        with pytest.raises(Corrupt):
            decode_segment(data[:size], where="cut")


@given(extra=st.binary(min_size=1, max_size=64))
def test_bytes_after_the_end_are_detected(extra: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_segment(GOLDEN.read_bytes() + extra, where="longer")


@given(junk=st.binary(max_size=256))
def test_foreign_bytes_are_never_taken_for_a_segment(junk: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_segment(junk, where="junk")


def test_a_newer_version_is_named_and_asks_for_an_upgrade() -> None:
    data = bytearray(GOLDEN.read_bytes())
    struct.pack_into(">H", data, 8, 2)
    struct.pack_into(">I", data, 44, crc32c(memoryview(data)[:44]))
    with pytest.raises(UnsupportedVersion, match=r"format version 2.*upgrade"):
        decode_segment(bytes(data), where="from the future")


def test_an_empty_segment_cannot_be_sealed() -> None:
    with pytest.raises(ValueError, match="never sealed"):
        OpenSegment().seal(GOLDEN_ID, "cost", created_ms=0)
