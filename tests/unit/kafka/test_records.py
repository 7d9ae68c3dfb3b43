import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.batch import (
    CRC_START,
    HEADER,
    BatchHeader,
    check,
    restamp_append_time,
)
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import (
    Record,
    RecordHeader,
    TimestampedOffset,
    decode_records,
    encode_batch,
    first_offset_at_or_after,
)
from tests.support.batches import checked, make_batch

I64 = st.integers(-(2**63), 2**63 - 1)
NULLABLE = st.none() | st.binary(max_size=40)


def parse(batch: bytes) -> BatchHeader:
    return BatchHeader._make(HEADER.unpack_from(batch))


def resummed(batch: bytearray) -> bytes:
    struct.pack_into(">I", batch, 17, crc32c(batch[CRC_START:]))
    return bytes(batch)


@st.composite
def records_with_holes(draw: st.DrawFn) -> list[Record]:
    headers = st.lists(st.builds(RecordHeader, st.binary(max_size=9), NULLABLE), max_size=4)
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 12))):
        record = Record(offset, draw(I64), draw(NULLABLE), draw(NULLABLE), tuple(draw(headers)))
        records.append(record)
        offset += draw(st.integers(1, 5))
    return records


@given(records=records_with_holes(), codec=st.sampled_from(list(Codec)))
def test_decoding_gives_exactly_the_records_that_were_encoded(
    records: list[Record], codec: Codec
) -> None:
    batch = encode_batch(records, codec=codec)
    assert decode_records(batch, parse(batch)) == records


@given(values=st.lists(NULLABLE, min_size=1, max_size=9), codec=st.sampled_from(list(Codec)))
def test_batch_factory_makes_what_the_ingress_accepts(
    values: list[bytes | None], codec: Codec
) -> None:
    (batch,) = checked(make_batch(values, producer_id=4, epoch=0, sequence=7, codec=codec))
    assert batch.header.producer_id == 4
    assert [record.value for record in decode_records(batch.data, batch.header)] == values


def test_append_time_gives_every_record_the_time_of_the_batch() -> None:
    (batch,) = checked(make_batch([b"a", b"b"], timestamps=[5, 9]))
    restamped = restamp_append_time(batch, 1_000)
    records = decode_records(restamped.data, restamped.header)
    assert [record.timestamp for record in records] == [1_000, 1_000]


def test_batch_covers_the_hole_after_its_last_record() -> None:
    records = [Record(10, 0, None, b"a"), Record(12, 0, None, b"b")]
    header = parse(encode_batch(records, base_offset=9, last_offset=20))
    assert (header.base_offset, header.offsets, header.record_count) == (9, 12, 2)


def test_batch_without_records_covers_a_hole() -> None:
    batch = encode_batch([], base_offset=5, last_offset=8)
    assert (parse(batch).base_offset, parse(batch).offsets) == (5, 4)
    assert decode_records(batch, parse(batch)) == []


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, TimestampedOffset(100, 10)),
        (11, TimestampedOffset(101, 30)),
        (30, TimestampedOffset(101, 30)),
        (31, None),
    ],
)
def test_search_by_time_finds_the_first_record_at_or_after(
    timestamp: int, expected: TimestampedOffset | None
) -> None:
    times = [10, 30, 20]
    batch = encode_batch([Record(100 + i, time, None, b"") for i, time in enumerate(times)])
    assert first_offset_at_or_after(batch, parse(batch), timestamp) == expected


def test_search_by_time_leaves_out_what_lies_before_the_first_offset_wanted() -> None:
    batch = encode_batch([Record(100 + i, 50, None, b"") for i in range(3)])
    found = first_offset_at_or_after(batch, parse(batch), 50, from_offset=102)
    assert found == TimestampedOffset(102, 50)


def test_search_by_append_time_finds_the_first_record_of_the_batch() -> None:
    records = [Record(100, 7, None, b""), Record(101, 7, None, b"")]
    batch = encode_batch(records, append_time=True)
    assert first_offset_at_or_after(batch, parse(batch), 7) == TimestampedOffset(100, 7)


def test_batch_with_more_records_than_bytes_is_refused() -> None:
    batch = bytearray(make_batch([b"x"]))
    struct.pack_into(">i", batch, 23, 2**31 - 2)
    struct.pack_into(">i", batch, 57, 2**31 - 1)
    lying = resummed(batch)
    check(lying, max_message_bytes=1_000)
    with pytest.raises(InvalidBatch, match="no room"):
        decode_records(lying, parse(lying))


def test_batch_with_fewer_records_than_its_header_says_is_refused() -> None:
    batch = bytearray(make_batch([b"long enough for two records"]))
    struct.pack_into(">i", batch, 23, 1)
    struct.pack_into(">i", batch, 57, 2)
    lying = resummed(batch)
    with pytest.raises(InvalidBatch, match="ends inside a record"):
        decode_records(lying, parse(lying))


@given(noise=st.binary(min_size=7, max_size=200), count=st.integers(1, 20))
def test_any_bytes_either_decode_or_are_refused(noise: bytes, count: int) -> None:
    header = parse(make_batch([b""]))._replace(
        length=49 + len(noise), record_count=count, last_offset_delta=count - 1
    )
    try:
        records = decode_records(bytes(61) + noise, header)
    except InvalidBatch:
        return
    assert len(records) == count
