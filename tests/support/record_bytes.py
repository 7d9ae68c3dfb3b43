"""Bytes of record batches that are legal, nearly legal or nothing of the kind."""

from collections.abc import Sequence

from crc32c import crc32c
from hypothesis import strategies as st

from lakestream_spark.kafka.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
)
from lakestream_spark.kafka.codecs import Codec, compress
from lakestream_spark.kafka.records import Record, RecordHeader, encode_batch

I64 = st.integers(-(2**63), 2**63 - 1)
NULLABLE = st.none() | st.binary(max_size=40)
HEADER_KEYS = st.binary(max_size=9) | st.text(max_size=5).map(str.encode)
CODECS = st.sampled_from(list(Codec))
_TIMES = st.integers(0, 2**41) | I64
_EDGES = st.sampled_from([-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 63, 64, 2**31, 2**63 - 1])


def parse(batch: bytes) -> BatchHeader:
    return BatchHeader._make(HEADER.unpack_from(batch))


def assemble(body: bytes, codec: Codec, header: BatchHeader) -> bytes:
    """A batch of these record bytes, compressed; length, codec and CRC are made to fit."""
    packed = compress(codec, body)
    attributes = header.attributes & ~0x07 | codec
    length = HEADER_BYTES + len(packed) - LENGTH_OVERHEAD
    data = bytearray(HEADER_BYTES) + packed
    header = header._replace(length=length, attributes=attributes)
    HEADER.pack_into(data, 0, *header)
    HEADER.pack_into(data, 0, *header._replace(crc=crc32c(memoryview(data)[CRC_START:])))
    return bytes(data)


@st.composite
def record_lists(draw: st.DrawFn, max_size: int = 12) -> list[Record]:
    """Records in offset order, with holes between them."""
    headers = st.lists(st.builds(RecordHeader, HEADER_KEYS, NULLABLE), max_size=4)
    offset = draw(st.integers(0, 2**40))
    records: list[Record] = []
    for _ in range(draw(st.integers(1, max_size))):
        fields = draw(_TIMES), draw(NULLABLE), draw(NULLABLE), tuple(draw(headers))
        records.append(Record(offset, *fields))
        offset += draw(st.integers(1, 5))
    return records


@st.composite
def legal_batches(draw: st.DrawFn) -> bytes:
    records = draw(record_lists())
    batch = encode_batch(
        records,
        last_offset=records[-1].offset + draw(st.integers(0, 3)),
        append_time=draw(st.booleans()),
    )
    control = 0x20 if draw(st.integers(0, 9)) == 0 else 0
    header = parse(batch)
    header = header._replace(attributes=header.attributes | control)
    return assemble(batch[HEADER_BYTES:], draw(CODECS), header)


@st.composite
def mutated_batches(draw: st.DrawFn) -> bytes:
    """A legal batch with a few bytes of its records, or fields of its header, changed."""
    batch = encode_batch(draw(record_lists(4)), append_time=draw(st.booleans()))
    body, header = bytearray(batch[HEADER_BYTES:]), parse(batch)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(body)))
        body[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    header = header._replace(
        record_count=header.record_count + draw(st.sampled_from([0, 0, 0, 1, -1, -9, 2**30])),
        last_offset_delta=header.last_offset_delta + draw(st.sampled_from([0, 0, 0, 5, -1, -90])),
        base_timestamp=draw(_TIMES),
    )
    return assemble(bytes(body), draw(CODECS), header)


@st.composite
def odd_varints(draw: st.DrawFn) -> bytes:
    """Edges of the range, more bytes than needed, more than ten, more than 64 bits."""
    value = draw(_EDGES)
    raw = (value << 1) ^ (value >> 63) if draw(st.booleans()) else draw(st.integers(0, 2**70 - 1))
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    pad = draw(st.sampled_from([0, 0, 1, 8, 11]))
    if pad:
        out[-1] |= 0x80
        out += b"\x80" * (pad - 1) + b"\x00"
    return bytes(out)


@st.composite
def odd_batches(draw: st.DrawFn) -> bytes:
    """Records made of varints as nobody would write them, some of them legal all the same."""
    small = st.sampled_from([b"\x00", b"\x01", b"\x02", b"\x04", b"\x06"])
    body = bytearray()
    count = draw(st.integers(0, 3))
    for number in range(count):
        numbers: Sequence[bytes] = draw(st.lists(small | odd_varints(), min_size=5, max_size=5))
        delta = draw(st.just(bytes([number * 2])) | st.just(numbers[1]))
        fields = b"\x00" + numbers[0] + delta + b"".join(numbers[2:])
        fields += draw(st.binary(max_size=6))
        body += draw(st.just(bytes([len(fields) * 2 & 0x7E])) | odd_varints()) + fields
    header = parse(encode_batch([], base_offset=7, last_offset=9))
    header = header._replace(
        record_count=count, last_offset_delta=draw(st.integers(-2, 3)), base_timestamp=draw(_TIMES)
    )
    return assemble(bytes(body), draw(CODECS), header)


@st.composite
def noise_batches(draw: st.DrawFn) -> bytes:
    """Bytes of any kind where the records should be, said to be compressed or not."""
    count = draw(st.integers(-1, 20))
    header = parse(encode_batch([], base_offset=0, last_offset=max(0, count)))
    header = header._replace(record_count=count)
    noise = assemble(draw(st.binary(max_size=200)), Codec.NONE, header)
    said = parse(noise)._replace(attributes=draw(CODECS))
    data = bytearray(noise)
    HEADER.pack_into(data, 0, *said)
    return bytes(data)


BATCHES = legal_batches() | mutated_batches() | odd_batches() | noise_batches()
