"""Records of compressed batches, decompressed one after the other into one array.

The array is used again and again, so that no memory is taken, cleared or guessed per batch. Where
it does not suffice, and wherever bytes do not decompress, `codecs.decompress` decides: the caps and
the refusals are its own.
"""

from contextlib import suppress
from typing import Final, NamedTuple

import cramjam
import numpy as np

from lakestream_spark.kafka.arrow.layout import Bytes
from lakestream_spark.kafka.codecs import XERIAL_MAGIC, Codec, decompress

_INTO: Final = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.SNAPPY: cramjam.snappy.decompress_raw_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


class Body(NamedTuple):
    """Where the records of a batch lie."""

    source: Bytes
    start: int
    end: int


class Bodies:
    """Room for the bodies of one piece; `clear` when it is decoded."""

    def __init__(self, size: int) -> None:
        array = np.empty(size, np.uint8)
        self._room = array.data
        self.source = readonly(array)
        self._used = 0

    def clear(self) -> None:
        self._used = 0

    def add(self, codec: Codec, data: memoryview, *, max_bytes: int) -> Body:
        """The records in `data`; raises `InvalidBatch` when they are broken or too large."""
        room = self._room[self._used : self._used + max_bytes]
        if not _is_framed(codec, data):
            with suppress(cramjam.DecompressionError):
                size = _INTO[codec](data, room)
                self._used += size
                return Body(self.source, self._used - size, self._used)
        body = np.frombuffer(decompress(codec, data, max_bytes=max_bytes), np.uint8)
        return Body(readonly(body), 0, len(body))


def _is_framed(codec: Codec, data: memoryview) -> bool:
    """Java producers wrap snappy in blocks; as plain snappy their bytes might mean anything."""
    return codec is Codec.SNAPPY and bytes(data[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC


def readonly(array: Bytes) -> Bytes:
    """The kernels are compiled for arrays that they cannot write to."""
    view = array.view()
    view.flags.writeable = False
    return view
