"""Records of compressed batches, decompressed one after the other into the same array.

So no memory is taken, cleared or guessed per batch, and what the kernel reads is in the cache.
Where the array does not suffice, and wherever bytes do not decompress, `codecs.decompress` decides:
the caps and the refusals are its own.
"""

from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

import cramjam
import numpy as np

from lakestream_spark.kafka.arrow.layout import Bytes
from lakestream_spark.kafka.codecs import XERIAL_MAGIC, Codec, decompress

A = TypeVar("A", bound=np.ndarray[Any, Any])
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
    """Room for the body of one batch: the next one takes its place."""

    def __init__(self, size: int) -> None:
        array = np.empty(size, np.uint8)
        self._room = array.data
        self.source = readonly(array)

    def put(self, codec: Codec, data: memoryview, *, max_bytes: int) -> Body:
        """The records in `data`; raises `InvalidBatch` when they are broken or too large."""
        if not _is_framed(codec, data):
            with suppress(cramjam.DecompressionError):
                size = _INTO[codec](data, self._room[:max_bytes])
                return Body(self.source, 0, size)
        body = np.frombuffer(decompress(codec, data, max_bytes=max_bytes), np.uint8)
        return Body(readonly(body), 0, len(body))


def _is_framed(codec: Codec, data: memoryview) -> bool:
    """Java producers wrap snappy in blocks; as plain snappy their bytes might mean anything."""
    return codec is Codec.SNAPPY and bytes(data[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC


def readonly(array: A) -> A:
    """The kernels are compiled for arrays that they cannot write to."""
    view = array.view()
    view.flags.writeable = False
    return view
