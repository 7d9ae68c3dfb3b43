"""The record batch header: what passes the ingress, what does not, and what stamping touches."""

import struct
from collections.abc import Callable

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.errors import (
    BatchTooLarge,
    Corrupt,
    InvalidBatch,
    Rejected,
    UnsupportedMagic,
)
from lakestream_spark.kafka.batch import (
    CRC_START,
    HEADER,
    STAMP_BYTES,
    BatchHeader,
    check,
    restamp_append_time,
    stamp,
    verify,
    walk,
)
from lakestream_spark.kafka.records import decode_records
from tests.support.batches import make_batch

LIMIT = 1 << 20


def resummed(batch: bytes, **changes: int) -> bytes:
    """The batch with header fields changed and a CRC that fits them."""
    data = bytearray(batch)
    header = BatchHeader._make(HEADER.unpack_from(data))._replace(**changes)
    HEADER.pack_into(data, 0, *header)
    HEADER.pack_into(data, 0, *header._replace(crc=crc32c(memoryview(data)[CRC_START:])))
    return bytes(data)


def test_a_record_set_of_several_batches_passes_as_several() -> None:
    first, second = make_batch([b"a", b"b"]), make_batch([b"c"])
    batches = check(first + second, max_message_bytes=LIMIT)
    assert [bytes(batch.data) for batch in batches] == [first, second]
    assert [batch.header.offsets for batch in batches] == [2, 1]


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (lambda b: b"", InvalidBatch, "empty"),
        (lambda b: b[:10], InvalidBatch, "ends inside a batch header"),
        (lambda b: b[:-1], InvalidBatch, "length"),
        (lambda b: b[:16] + b"\x01" + b[17:], UnsupportedMagic, "v2"),
        (lambda b: b[:8] + struct.pack(">i", -5) + b[12:], InvalidBatch, "length"),
        (lambda b: b[:8] + struct.pack(">i", 2**31 - 1) + b[12:], InvalidBatch, "length"),
        (lambda b: b[:-1] + bytes([b[-1] ^ 1]), InvalidBatch, "CRC"),
        (lambda b: resummed(b, record_count=3), InvalidBatch, "record count"),
        (lambda b: resummed(b, record_count=0, last_offset_delta=-1), InvalidBatch, "record count"),
        (lambda b: resummed(b, attributes=5), InvalidBatch, "attributes"),
        (lambda b: resummed(b, attributes=0x20), InvalidBatch, "attributes"),
        (lambda b: resummed(b, attributes=0x400), InvalidBatch, "attributes"),
        (lambda b: resummed(b, producer_id=5), InvalidBatch, "epoch and a sequence"),
        (lambda b: resummed(b, producer_id=-2), InvalidBatch, "producer id"),
        (lambda b: resummed(b, attributes=0x10), InvalidBatch, "producer id"),
    ],
)
def test_what_is_not_legal_is_refused_with_the_reason(
    damage: Callable[[bytes], bytes], error: type[Rejected], says: str
) -> None:
    with pytest.raises(error, match=says):
        check(damage(make_batch([b"a", b"b"])), max_message_bytes=LIMIT)


def test_a_batch_above_the_limit_is_refused_with_both_sizes() -> None:
    batch = make_batch([b"x" * 1000])
    with pytest.raises(BatchTooLarge, match=rf"size={len(batch)}, max=1000"):
        check(batch, max_message_bytes=1000)


@given(junk=st.binary(max_size=200))
def test_foreign_bytes_are_refused_and_nothing_else_happens(junk: bytes) -> None:
    with pytest.raises(Rejected):
        check(junk, max_message_bytes=LIMIT)


def test_stamping_changes_only_what_lies_outside_the_crc() -> None:
    before = make_batch([b"a"])
    header = BatchHeader._make(HEADER.unpack_from(before))
    batch = stamp(77, header.length) + before[STAMP_BYTES:]
    verify(batch, where="test")
    assert BatchHeader._make(HEADER.unpack_from(batch)) == header._replace(base_offset=77)


def test_append_time_is_every_records_time_and_the_sum_fits() -> None:
    (batch,) = check(make_batch([b"a", b"b"], timestamps=[5, 9]), max_message_bytes=LIMIT)
    restamped = restamp_append_time(batch, 1_000)
    verify(bytes(restamped.data), where="test")
    records = decode_records(restamped.data, restamped.header)
    assert [record.timestamp for record in records] == [1_000, 1_000]
    assert [record.value for record in records] == [b"a", b"b"]


def test_walking_stored_bytes_that_do_not_tile_is_corruption_with_the_place() -> None:
    data = make_batch([b"a"]) + make_batch([b"b"])[:-3]
    with pytest.raises(Corrupt, match=r"where=segment 9, position=69"):
        list(walk(data, where="segment 9"))
