import os
import struct
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.codecs import Codec, compress, decompress

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def xerial(data: bytes, block_bytes: int) -> bytes:
    """Snappy as Java producers frame it."""
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        framed += struct.pack(">i", len(block)) + block
    return framed


@given(data=st.binary(max_size=5_000), codec=st.sampled_from(list(Codec)))
def test_decompress_returns_what_was_compressed(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data)) == data


@given(data=st.binary(max_size=5_000), block_bytes=st.integers(1, 700))
def test_snappy_in_java_framing_is_understood(data: bytes, block_bytes: int) -> None:
    assert decompress(Codec.SNAPPY, xerial(data, block_bytes)) == data


@pytest.mark.parametrize("codec", list(Codec))
def test_output_up_to_the_cap_is_allowed_and_one_byte_more_is_not(codec: Codec) -> None:
    bomb = compress(codec, bytes(1_000_000))
    assert len(decompress(codec, bomb, max_bytes=1_000_000)) == 1_000_000
    with pytest.raises(InvalidBatch, match="more than is allowed"):
        decompress(codec, bomb, max_bytes=999_999)


def test_cap_holds_over_all_blocks_of_java_framed_snappy() -> None:
    with pytest.raises(InvalidBatch, match="more than is allowed"):
        decompress(Codec.SNAPPY, xerial(bytes(10_000), 1_000), max_bytes=9_999)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("cut", [1, 3, 10])
def test_truncated_bytes_are_named_with_their_codec(codec: Codec, cut: int) -> None:
    compressed = compress(codec, bytes(range(256)) * 20)
    with pytest.raises(InvalidBatch, match=codec.name):
        decompress(codec, compressed[:-cut])


@pytest.mark.parametrize("codec", COMPRESSING)
def test_garbage_is_refused(codec: Codec) -> None:
    with pytest.raises(InvalidBatch):
        decompress(codec, b"\xff\xff\xff\xff\x0fgarbage")


@pytest.mark.parametrize("length", [-1, 1 << 30])
def test_snappy_block_length_beyond_the_stream_is_refused(length: int) -> None:
    framed = xerial(b"", 1) + struct.pack(">i", length)
    with pytest.raises(InvalidBatch, match="beyond its stream"):
        decompress(Codec.SNAPPY, framed)


def test_blocks_of_an_lz4_frame_are_independent_as_java_clients_demand() -> None:
    version_and_flags = compress(Codec.LZ4, bytes(200_000))[4]
    assert version_and_flags & 0b0010_0000


@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 256 * 1024 + 1, 1_000_000])
@pytest.mark.parametrize("fill", [bytes, os.urandom], ids=["zeros", "random"])
def test_lz4_frames_of_any_number_of_blocks_are_read_by_another_implementation(
    size: int, fill: Callable[[int], bytes]
) -> None:
    data = fill(size)
    framed = compress(Codec.LZ4, data)
    assert lz4.frame.decompress(framed) == data
    assert decompress(Codec.LZ4, framed) == data
    assert len(framed) <= size + 4 * (size // (256 * 1024) + 2) + 7  # never grows by more
