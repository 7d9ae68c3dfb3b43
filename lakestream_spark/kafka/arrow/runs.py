"""Chunks -> runs: batches whose records lie, decompressed, in one array.

Batches that are not compressed stay where they are, many in one run; a compressed one is a run by
itself, to be decoded before the next is asked for. A run is not longer than a piece, unless a
single batch is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.arrow.bodies import Bodies, readonly
from lakestream_spark.kafka.arrow.compiled import decode_kernels
from lakestream_spark.kafka.arrow.layout import (
    ATTRIBUTES,
    BATCH_COLUMNS,
    END,
    RECORD_COUNT,
    SMALLEST_RECORD,
    START,
    Bytes,
    Longs,
    Table,
)
from lakestream_spark.kafka.batch import CODEC_MASK, CONTROL_FLAG, HEADER_BYTES
from lakestream_spark.kafka.batch import walk as walk_plainly
from lakestream_spark.kafka.codecs import Codec, decompress

MAX_BATCH_RECORDS: Final = 8 * 1024 * 1024
"""Records of one batch: a few bytes of a bomb are one, and it takes a hundred in memory."""

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Chunk(NamedTuple):
    """Whole batches one after the other, CRCs checked.

    With a base offset they have consecutive offsets from it on, as those of an extent in the WAL;
    without, each has the one in its header.
    """

    data: bytes | memoryview
    base_offset: int | None = None


class Run(NamedTuple):
    """Batches in one array; `number` is that of the first, `error` is about the only one."""

    chunk: memoryview
    source: Bytes
    batches: Table
    number: int
    size: int
    """Bytes of the records in all of them."""
    most_records: int
    """No more than there are bytes for, whatever the batches say."""
    error: InvalidBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How chunks become runs; `bodies` holds what is decompressed."""

    bodies: Bodies
    max_batch_bytes: int
    piece_bytes: int

    def of(self, chunk: Chunk, number: int) -> Iterator[Run]:
        """The batches of the chunk in their order; the first of them has this number."""
        view = memoryview(chunk.data)
        source = readonly(np.frombuffer(view, np.uint8))
        batches = _describe(view, source, chunk.base_offset)
        ends, in_place = batches[:, END].copy(), self._in_place(batches)
        others = np.append(np.flatnonzero(~in_place), len(batches))
        first = 0
        while first < len(batches):
            after = first + 1
            if in_place[first]:
                limit = np.searchsorted(ends, batches[first, START] + self.piece_bytes, "right")
                next_other = others[np.searchsorted(others, first)]
                after = max(after, int(min(limit, next_other)))
                size, most = _extent(batches[first:after])
                yield Run(view, source, batches[first:after], number + first, size, most)
            else:
                yield self._decompressed(view, batches[first:after], number + first)
            first = after

    def _in_place(self, batches: Table) -> Flags:
        """Which batches are decoded where they lie."""
        attributes = batches[:, ATTRIBUTES]
        small = batches[:, END] - batches[:, START] <= self.max_batch_bytes
        plain = (attributes & CODEC_MASK == Codec.NONE) & small
        plain &= _most_records(batches) <= MAX_BATCH_RECORDS
        found: Flags = plain | (attributes & CONTROL_FLAG != 0)
        return found

    def _decompressed(self, view: memoryview, batches: Table, number: int) -> Run:
        batch = batches[0]
        data = view[batch[START] : batch[END]]
        try:
            codec = _codec(int(batch[ATTRIBUTES]) & CODEC_MASK)
            if codec is Codec.NONE:  # above a cap, or it would be decoded where it lies
                decompress(codec, data, max_bytes=self.max_batch_bytes)
                _refuse_a_bomb(_extent(batches)[1])
            body = self.bodies.put(codec, data, max_bytes=self.max_batch_bytes)
            batch[START], batch[END] = body.start, body.end
            size, most = _extent(batches)
            _refuse_a_bomb(most)
        except InvalidBatch as error:
            batch[START], batch[END], batch[RECORD_COUNT] = 0, 0, 0
            return Run(view, self.bodies.source, batches, number, 0, 0, error)
        return Run(view, body.source, batches, number, size, most)


def _extent(batches: Table) -> tuple[int, int]:
    """The size of their records, and how many there are at most."""
    sizes = batches[:, END] - batches[:, START]
    return int(sizes.sum()), int(_most_records(batches).sum())


def _most_records(batches: Table) -> Longs:
    """How many each can have: no more than there are bytes for."""
    sizes = batches[:, END] - batches[:, START]
    return np.clip(batches[:, RECORD_COUNT], 0, sizes // SMALLEST_RECORD)


def _describe(view: memoryview, source: Bytes, base_offset: int | None) -> Table:
    batches = np.empty((len(view) // HEADER_BYTES, BATCH_COLUMNS), np.int64)
    count = decode_kernels().walk(source, -1 if base_offset is None else base_offset, batches)
    if count < 0:
        # It does not tile; the plain walk says where.
        for _ in walk_plainly(view, where="record batches"):
            pass
    return batches[:count]


def _refuse_a_bomb(records: int) -> None:
    if records > MAX_BATCH_RECORDS:
        raise InvalidBatch(
            "the batch has more records than is allowed", records=records, max=MAX_BATCH_RECORDS
        )


def _codec(number: int) -> Codec:
    try:
        return Codec(number)
    except ValueError as error:
        raise InvalidBatch("the batch has a codec that nobody knows", codec=number) from error
