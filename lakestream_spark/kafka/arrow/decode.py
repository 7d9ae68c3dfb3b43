"""Record batches -> Arrow arrays, piece by piece.

    chunks ─► runs: batches described, records decompressed ─► the kernel ─► pieces

A piece is a bounded number of bytes, so memory does not depend on how much there is to decode. What
always holds: rows are in the order of the batches; control batches have none; a batch whose content
is not legal is a value in the result, with its place and the reason, and the others are decoded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.arrow.bodies import Bodies
from lakestream_spark.kafka.arrow.columns import (
    Columns,
    columns_of,
    new_space,
    with_more_headers,
    with_rows,
)
from lakestream_spark.kafka.arrow.compiled import decode_kernels
from lakestream_spark.kafka.arrow.layout import (
    BASE_OFFSET,
    LEGAL,
    POSITION,
    REFUSAL,
    SMALLEST_HEADER,
    TOO_MANY_HEADERS,
    VERDICT,
    Table,
)
from lakestream_spark.kafka.arrow.refusals import error_of
from lakestream_spark.kafka.arrow.runs import Chunk, Run, Runs
from lakestream_spark.kafka.batch import HEADER, BatchHeader
from lakestream_spark.kafka.codecs import MAX_DECOMPRESSED_BYTES

PIECE_BYTES: Final = 32 * 1024 * 1024
MAX_HEADERS: Final = PIECE_BYTES // SMALLEST_HEADER
"""Of a piece; only one that is a single great batch can have more, and that is refused."""
_SOME_RECORDS: Final = 64 * 1024
_SOME_HEADERS: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBatch:
    """A batch that is not legal, for the caller to keep aside; its offsets are [first, next)."""

    index: int
    first: int
    next: int
    data: memoryview
    error: InvalidBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One piece: the records of some batches, and those of the batches that are refused."""

    columns: Columns
    refused: tuple[RefusedBatch, ...]


def decode(
    chunks: Iterable[Chunk],
    *,
    max_batch_bytes: int = MAX_DECOMPRESSED_BYTES,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[Decoded]:
    """The records of all batches; one may decompress to `max_batch_bytes` and no more.

    Indexes of refused batches count all batches of all chunks. Raises `Corrupt` when a chunk is not
    whole batches.
    """
    runs = Runs(
        bodies=Bodies(piece_bytes), max_batch_bytes=max_batch_bytes, piece_bytes=piece_bytes
    )
    piece: _Piece | None = None
    number = 0
    for chunk in chunks:
        for run in runs.of(chunk, number):
            number = run.number + len(run.batches)
            if piece is not None and not piece.has_room(run):
                yield piece.decoded()
                piece = None
            if piece is None:
                piece = _Piece(max(piece_bytes, run.size))
            piece.add(run)
            del run  # What was decompressed need not wait until the piece is written.
    if piece is not None:
        yield piece.decoded()


class _Piece:
    """Runs decoded one after the other, up to so many bytes of records."""

    def __init__(self, size: int) -> None:
        self._kernel = decode_kernels().decode
        self._left = size
        self._space = new_space(_SOME_RECORDS, size, _SOME_HEADERS)
        self._refused: list[RefusedBatch] = []

    def has_room(self, run: Run) -> bool:
        return run.size <= self._left

    def add(self, run: Run) -> None:
        self._left -= run.size
        self._space = with_rows(self._space, run.most_records)
        verdicts = np.empty((len(run.batches), VERDICT), np.int64)
        done = self._kernel(run.source, run.batches, 0, self._space, verdicts)
        while done < len(run.batches):
            if len(self._space.header_valid) < MAX_HEADERS:
                self._space = with_more_headers(self._space)
            else:
                verdicts[done] = TOO_MANY_HEADERS, 0
                done += 1
            done = self._kernel(run.source, run.batches, done, self._space, verdicts)
        self._refused += _refused(run, verdicts)

    def decoded(self) -> Decoded:
        return Decoded(columns=columns_of(self._space), refused=tuple(self._refused))


def _refused(run: Run, verdicts: Table) -> list[RefusedBatch]:
    if run.error is not None:
        return [_refused_batch(run, 0, run.error)]
    if not verdicts[:, REFUSAL].any():
        return []
    return [
        _refused_batch(run, number, error_of(*verdicts[number].tolist()))
        for number in np.flatnonzero(verdicts[:, REFUSAL] != LEGAL).tolist()
    ]


def _refused_batch(run: Run, number: int, error: InvalidBatch) -> RefusedBatch:
    batch = run.batches[number].tolist()
    position, first = batch[POSITION], batch[BASE_OFFSET]
    header = BatchHeader._make(HEADER.unpack_from(run.chunk, position))
    return RefusedBatch(
        index=run.number + number,
        first=first,
        next=first + header.offsets,
        data=run.chunk[position : position + header.size],
        error=error,
    )
