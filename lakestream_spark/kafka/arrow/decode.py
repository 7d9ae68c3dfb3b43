"""Record batches -> Arrow arrays, piece by piece.

    chunks ─► runs: batches described, records decompressed ─► the kernel ─► `Decoded`

A piece is a bounded number of bytes, so memory does not depend on how much there is to decode. What
always holds: rows are in the order of the batches; control batches have none; a batch whose content
is not legal is a value in the result, with its place and the reason, and the others are decoded.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.arrow.bodies import Bodies
from lakestream_spark.kafka.arrow.columns import Columns, columns_of, new_space, with_more_headers
from lakestream_spark.kafka.arrow.compiled import decode_kernels
from lakestream_spark.kafka.arrow.layout import (
    BASE_OFFSET,
    LEGAL,
    POSITION,
    REFUSAL,
    VERDICT,
    Table,
)
from lakestream_spark.kafka.arrow.refusals import error_of
from lakestream_spark.kafka.arrow.runs import Chunk, Run, Runs
from lakestream_spark.kafka.batch import HEADER, BatchHeader
from lakestream_spark.kafka.codecs import MAX_DECOMPRESSED_BYTES

PIECE_BYTES: Final = 32 * 1024 * 1024
_FEW_HEADERS: Final = 1024
_HEADER_BYTES: Final = 16


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
    bodies = Bodies(2 * piece_bytes)
    runs = Runs(bodies=bodies, max_batch_bytes=max_batch_bytes, piece_bytes=piece_bytes)
    held: list[Run] = []
    size, number = 0, 0
    for chunk in chunks:
        for run in runs.of(chunk, number):
            held.append(run)
            size += run.size
            number = run.number + len(run.batches)
            if size >= piece_bytes:
                yield _decode(held)
                held, size = [], 0
                bodies.clear()
    if held:
        yield _decode(held)


def _decode(runs: Sequence[Run]) -> Decoded:
    kernel = decode_kernels().decode
    space = new_space(
        sum(run.most_records for run in runs),
        sum(run.size for run in runs),
        _FEW_HEADERS,
        _FEW_HEADERS * _HEADER_BYTES,
    )
    refused: list[RefusedBatch] = []
    for run in runs:
        verdicts = np.empty((len(run.batches), VERDICT), np.int64)
        done = kernel(run.source, run.batches, 0, space, verdicts)
        while done < len(run.batches):
            space = with_more_headers(space)
            done = kernel(run.source, run.batches, done, space, verdicts)
        refused += _refused(run, verdicts)
    return Decoded(columns=columns_of(space), refused=tuple(refused))


def _refused(run: Run, verdicts: Table) -> list[RefusedBatch]:
    if run.error is not None:
        return [_refused_batch(run, 0, run.error)]
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
