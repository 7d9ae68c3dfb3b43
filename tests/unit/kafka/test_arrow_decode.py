"""The kernels decode what the reference decodes and refuse what it refuses, for the same reason."""

import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.errors import Corrupt, InvalidBatch
from lakestream_spark.kafka.arrow import decode as decoding
from lakestream_spark.kafka.arrow import runs
from lakestream_spark.kafka.arrow.decode import Decoded, decode
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.kafka.batch import APPEND_TIME_FLAG
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, RecordHeader, decode_records, encode_batch
from lakestream_spark.table.columns import (
    HEADERS,
    KEY,
    OFFSET,
    RECORD,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE,
)
from lakestream_spark.table.rows import Row, to_arrow
from tests.support.batches import make_batch
from tests.support.record_bytes import BATCHES, assemble, parse

# The first test of a cold machine compiles the kernels.
pytestmark = pytest.mark.timeout(600)

COLUMNS = {
    "offsets": OFFSET,
    "timestamps": TIMESTAMP,
    "timestamp_types": TIMESTAMP_TYPE,
    "keys": KEY,
    "headers": HEADERS,
    "values": VALUE,
    "records": RECORD,
}
ROOT = Path(__file__).parents[3]
MAX_BYTES = 2_000


def reference(batches: Sequence[bytes]) -> tuple[pa.Table, list[tuple[int, str]]]:
    """The rows of the legal batches as the table has them, and the others with their reasons."""
    rows: list[Row] = []
    refused: list[tuple[int, str]] = []
    for index, batch in enumerate(batches):
        header = parse(batch)
        if header.control:
            continue
        try:
            records = decode_records(batch, header, max_bytes=MAX_BYTES)
        except InvalidBatch as error:
            refused.append((index, error.message))
            continue
        rows += [Row(record, bool(header.attributes & APPEND_TIME_FLAG)) for record in records]
    return to_arrow(0, rows), refused


def column(pieces: Sequence[Decoded], name: str) -> pa.Array:
    arrays = [getattr(piece.columns, name) for piece in pieces]
    for array in arrays:
        array.validate(full=True)
    return pa.concat_arrays(arrays)


def assert_as_reference(pieces: Sequence[Decoded], batches: Sequence[bytes]) -> None:
    table, refused = reference(batches)
    found = [each for piece in pieces for each in piece.refused]
    assert [(each.index, each.error.message) for each in found] == refused
    for each in found:
        assert each.data == batches[each.index]
        header = parse(batches[each.index])
        assert (each.first, each.next) == (header.base_offset, header.base_offset + header.offsets)
    for name, table_name in COLUMNS.items():
        assert column(pieces, name).equals(table[table_name].combine_chunks()), name


@given(batches=st.lists(BATCHES, min_size=1, max_size=5), piece_bytes=st.integers(1, 300))
def test_any_batches_give_the_rows_or_the_refusals_of_the_reference(
    batches: list[bytes], piece_bytes: int
) -> None:
    options = {"max_batch_bytes": MAX_BYTES, "piece_bytes": piece_bytes}
    apart = list(decode([Chunk(batch) for batch in batches], **options))
    assert_as_reference(apart, batches)
    joined = list(decode([Chunk(memoryview(b"".join(batches)))], **options))
    assert_as_reference(joined, batches)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_kernel_touches_anything_outside_its_arrays(tmp_path: Path) -> None:
    """The same examples, with kernels that look at every index before they use it."""
    this = f"{__file__}::{test_any_batches_give_the_rows_or_the_refusals_of_the_reference.__name__}"
    checking = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    profile = "--hypothesis-profile=thorough"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--timeout=3600", profile, this],
        cwd=ROOT,
        env=checking,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:]


def test_batches_of_an_extent_get_consecutive_offsets_from_its_base() -> None:
    extent = make_batch([b"a", b"b"]) + make_batch([b"c"]) + make_batch([None, b""])
    (piece,) = decode([Chunk(extent, base_offset=70), Chunk(make_batch([b"z"]), base_offset=90)])
    assert piece.columns.offsets.to_pylist() == [70, 71, 72, 73, 74, 90]
    assert piece.columns.values.to_pylist() == [b"a", b"b", b"c", None, b"", b"z"]


def test_a_refused_batch_leaves_a_gap_in_the_offsets_of_its_extent() -> None:
    lying = bytearray(make_batch([b"a", b"b"]))
    struct.pack_into(">i", lying, 57, 1)
    extent = make_batch([b"x"]) + bytes(lying) + make_batch([b"y"])
    (piece,) = decode([Chunk(extent, base_offset=10)])
    assert piece.columns.offsets.to_pylist() == [10, 13]
    (refused,) = piece.refused
    assert (refused.index, refused.first, refused.next) == (1, 11, 13)
    assert str(refused.error) == "bytes are left over after the records (record=1)"


def test_control_batches_have_offsets_and_no_rows() -> None:
    control = parse(make_batch([b"marker"]))._replace(attributes=0x20)
    marker = assemble(make_batch([b"marker"])[61:], Codec.NONE, control)
    extent = make_batch([b"x"]) + marker + make_batch([b"y"])
    (piece,) = decode([Chunk(extent, base_offset=0)])
    assert piece.columns.offsets.to_pylist() == [0, 2]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_above_the_cap_is_refused_and_its_neighbours_are_not(codec: Codec) -> None:
    bomb = make_batch([bytes(100_000)], codec=codec)
    small = make_batch([b"small"], codec=codec)
    chunk = Chunk(small + bomb + small)
    pieces = list(decode([chunk], max_batch_bytes=50_000, piece_bytes=1_000))
    assert [each.index for piece in pieces for each in piece.refused] == [1]
    assert column(pieces, "values").to_pylist() == [b"small", b"small"]


def test_a_batch_larger_than_a_piece_is_a_piece() -> None:
    large = make_batch([os.urandom(50_000)], codec=Codec.LZ4)
    small = make_batch([b"small"], codec=Codec.LZ4)
    pieces = list(decode([Chunk(small + large + small)], piece_bytes=1_000))
    assert [len(piece.columns) for piece in pieces] == [1, 1, 1]


def test_memory_for_rows_grows_with_the_batches_of_a_piece() -> None:
    batch = make_batch([b""] * 30_000, codec=Codec.LZ4)
    (piece,) = decode([Chunk(batch * 5, base_offset=0)])
    assert piece.columns.offsets.to_numpy().tolist() == list(range(150_000))


def test_memory_for_headers_grows_with_the_headers_that_are_there() -> None:
    headers = tuple(RecordHeader(b"k" * (n % 50), b"v" * (n % 90)) for n in range(3_000))
    records = [Record(0, 0, None, None, headers), Record(1, 0, None, None, headers)]
    (piece,) = decode([Chunk(encode_batch(records))])
    expected = [{"key": key.decode(), "value": value} for key, value in headers]
    assert piece.columns.headers.to_pylist() == [expected, expected]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_of_too_many_records_is_refused_and_its_neighbours_are_not(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MAX_BATCH_RECORDS", 10)
    batches = [make_batch([None] * count, codec=codec) for count in (10, 11, 1)]
    (piece,) = decode([Chunk(b"".join(batches), 0)])
    assert piece.columns.offsets.to_pylist() == [*range(10), 21]
    (refused,) = piece.refused
    assert (refused.first, refused.next) == (10, 21)
    assert "more records than is allowed (records=11, max=10)" in str(refused.error)


def test_a_batch_of_too_many_headers_is_refused_and_its_neighbours_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "MAX_HEADERS", 4096)
    batches = []
    for count in (4096, 5000, 0):
        headers = (RecordHeader(b"", None),) * count
        batches.append(encode_batch([Record(0, 1, None, b"v", headers)], codec=Codec.ZSTD))
    (piece,) = decode([Chunk(b"".join(batches), 0)])
    assert piece.columns.offsets.to_pylist() == [0, 2]
    assert list(map(len, piece.columns.headers.to_pylist())) == [4096, 0]
    (refused,) = piece.refused
    assert (refused.first, refused.next) == (1, 2)
    assert "more headers than is allowed" in str(refused.error)


def test_an_unknown_codec_is_refused() -> None:
    batch = bytearray(make_batch([b"x"]))
    struct.pack_into(">h", batch, 21, 6)
    (piece,) = decode([Chunk(bytes(batch))])
    assert piece.refused[0].error.facts == {"codec": 6}


def test_offsets_beyond_64_bits_are_refused() -> None:
    batch = bytearray(make_batch([b"x", b"y"]))
    struct.pack_into(">q", batch, 0, 2**63 - 1)
    (piece,) = decode([Chunk(bytes(batch))])
    assert "64 bits" in piece.refused[0].error.message


def test_a_header_without_a_key_is_refused_at_its_record() -> None:
    legal = make_batch([b"x", b"y"])
    without = b"\x14\x00\x00\x02\x01\x02y\x02\x01\x02z"
    batch = assemble(legal[61:69] + without, Codec.NONE, parse(legal))
    (piece,) = decode([Chunk(batch)])
    assert str(piece.refused[0].error) == "a header key is null (record=1)"


def test_nothing_to_decode_is_no_piece() -> None:
    assert list(decode([])) == []
    assert list(decode([Chunk(b"")])) == []


def test_bytes_that_are_not_whole_batches_are_corruption_with_the_place() -> None:
    with pytest.raises(Corrupt, match="position=69"):
        list(decode([Chunk(make_batch([b"a"]) + make_batch([b"b"])[:-3])]))
