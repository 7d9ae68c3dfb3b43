"""The compression codecs of record batches, each with an output cap.

A few bytes can claim to be gigabytes, so memory is never allocated by what the input declares:
output goes into a buffer that grows step by step up to the cap and no further. Bytes that do not
decompress raise `InvalidBatch`: the CRC has shown that they are what the producer sent.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from lakestream_spark.core.errors import InvalidBatch

MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
"""The cap unless a caller has a smaller one; far above what `message.max.bytes` lets in."""

_FIRST_GUESS: Final = 4
_SMALLEST_BUFFER: Final = 16 * 1024
_GROWTH: Final = 8
_BUFFER_FULL: Final = "failed to write whole buffer"

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_BLOCK: Final = struct.Struct(">i")

_LZ4_FRAME: Final = bytes.fromhex("04224d186050fb")
"""Magic, flags (independent blocks, no checksums), the largest block, and a hash of both."""
_LZ4_BLOCK_BYTES: Final = 256 * 1024
_LZ4_SIZE: Final = struct.Struct("<I")
_LZ4_STORED: Final = 1 << 31
"""A block that does not become smaller is kept as it is."""

_Into = Callable[[memoryview, bytearray], int]


class Codec(IntEnum):
    """The codec bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(
    codec: Codec, data: bytes | memoryview, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> memoryview:
    """What `data` holds; raises `InvalidBatch` when it is broken or above `max_bytes`."""
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            if len(view) > max_bytes:
                raise _too_large(codec, len(view), max_bytes)
            return view
        case Codec.SNAPPY:
            return _decompress_snappy(view, max_bytes)
        case Codec.GZIP:
            return _decompress_growing(codec, cramjam.gzip.decompress_into, view, max_bytes)
        case Codec.LZ4:
            return _decompress_growing(codec, cramjam.lz4.decompress_into, view, max_bytes)
        case Codec.ZSTD:
            return _decompress_growing(codec, cramjam.zstd.decompress_into, view, max_bytes)


def compress(codec: Codec, data: bytes | memoryview) -> bytes:
    """`data` compressed at a low level: replay pays for it on every read."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=1))
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(data))
        case Codec.LZ4:
            return _lz4_frame(memoryview(data))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=1))


def _lz4_frame(data: memoryview) -> bytes:
    """A frame whose blocks are independent, as Java clients demand, without checksums of its own:
    the batch has one."""
    parts: list[bytes | memoryview] = [_LZ4_FRAME]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        packed = memoryview(cramjam.lz4.compress_block(plain, store_size=False))
        if len(packed) < len(plain):
            parts += (_LZ4_SIZE.pack(len(packed)), packed)
        else:
            parts += (_LZ4_SIZE.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_SIZE.pack(0))
    return b"".join(parts)


def _decompress_growing(codec: Codec, into: _Into, view: memoryview, max_bytes: int) -> memoryview:
    size = min(max_bytes, max(_SMALLEST_BUFFER, _FIRST_GUESS * len(view)))
    while True:
        buffer = bytearray(size)
        try:
            return memoryview(buffer)[: into(view, buffer)]
        except cramjam.DecompressionError as error:
            if _BUFFER_FULL not in str(error):
                raise _broken(codec, error) from error
            if size == max_bytes:
                raise _too_large(codec, len(view), max_bytes) from error
        size = min(max_bytes, size * _GROWTH)


def _decompress_snappy(view: memoryview, max_bytes: int) -> memoryview:
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return memoryview(_snappy_block(view, max_bytes))
    output = bytearray()
    position = _XERIAL_HEADER_BYTES
    while position < len(view):
        if len(view) - position < _XERIAL_BLOCK.size:
            raise InvalidBatch("a snappy stream ends inside a block length", position=position)
        (length,) = _XERIAL_BLOCK.unpack_from(view, position)
        position += _XERIAL_BLOCK.size
        if not 0 <= length <= len(view) - position:
            raise InvalidBatch("a snappy block reaches beyond its stream", length=length)
        output += _snappy_block(view[position : position + length], max_bytes - len(output))
        position += length
    return memoryview(output)


def _snappy_block(view: memoryview, max_bytes: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(view)
        if size > max_bytes:
            raise _too_large(Codec.SNAPPY, len(view), max_bytes)
        buffer = bytearray(size)
        cramjam.snappy.decompress_raw_into(view, buffer)
        return buffer
    except cramjam.DecompressionError as error:
        raise _broken(Codec.SNAPPY, error) from error


def _too_large(codec: Codec, size: int, max_bytes: int) -> InvalidBatch:
    return InvalidBatch(
        "the batch decompresses to more than is allowed",
        codec=codec.name,
        compressed=size,
        max=max_bytes,
    )


def _broken(codec: Codec, error: Exception) -> InvalidBatch:
    return InvalidBatch("the batch does not decompress", codec=codec.name, error=error)
