"""Record batches <-> rows of the table, by the compiled kernels; `table.rows` is the plain way."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from lakestream_spark.kafka.arrow.columns import Columns
from lakestream_spark.kafka.arrow.decode import PIECE_BYTES, RefusedBatch, decode
from lakestream_spark.kafka.arrow.encode import BATCH_BYTES, encode
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.kafka.codecs import MAX_DECOMPRESSED_BYTES, Codec
from lakestream_spark.kafka.records import encode_batch
from lakestream_spark.table.columns import (
    ARROW_SCHEMA,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    RECORD,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE,
)

_FEW_ROWS: Final = 16 * 1024


class Rows(NamedTuple):
    """Rows of one partition in the order of their batches, and the batches that are refused."""

    table: pa.Table
    refused: tuple[RefusedBatch, ...]


def rows_of(
    partition: int,
    chunks: Iterable[Chunk],
    *,
    max_batch_bytes: int = MAX_DECOMPRESSED_BYTES,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[Rows]:
    """The rows of all batches, in pieces of about `piece_bytes`; see `kafka.arrow.decode`."""
    for piece in decode(chunks, max_batch_bytes=max_batch_bytes, piece_bytes=piece_bytes):
        yield Rows(_table(partition, piece.columns), piece.refused)


def _table(partition: int, columns: Columns) -> pa.Table:
    arrays = {
        PARTITION: pa.array(np.full(len(columns), partition, np.int32)),
        OFFSET: columns.offsets,
        TIMESTAMP: columns.timestamps,
        TIMESTAMP_TYPE: columns.timestamp_types,
        KEY: columns.keys,
        HEADERS: columns.headers,
        VALUE: columns.values,
        RECORD: columns.records,
    }
    return pa.Table.from_arrays([arrays[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)


def batches_of(
    table: pa.Table,
    span: tuple[int, int],
    *,
    codec: Codec,
    max_batch_bytes: int = BATCH_BYTES,
) -> Iterator[bytes]:
    """The rows of one partition, in any order, as batches that cover the offsets [first, next).

    What lies before the first row is not covered, unless there is no row at all: then the one batch
    has no records.
    """
    first, after = span
    if table.num_rows == 0:
        yield encode_batch([], base_offset=first, last_offset=after - 1)
        return
    pieces = pieces_of(in_order(table))
    ends = [piece[OFFSET][0].as_py() for piece in pieces[1:]]
    for piece, end in zip(pieces, [*ends, after], strict=True):
        yield from encode(
            record_columns(piece), next_offset=end, codec=codec, max_batch_bytes=max_batch_bytes
        )


def in_order(table: pa.Table) -> pa.Table:
    """Foreign engines write rows in any order."""
    offsets = table[OFFSET].to_numpy()
    return table.sort_by(OFFSET) if np.any(offsets[1:] < offsets[:-1]) else table


def pieces_of(table: pa.Table) -> list[pa.RecordBatch]:
    """The table as it is chunked, so that nothing is copied; joined first if that is too finely."""
    pieces = [piece for piece in table.to_batches() if piece.num_rows]
    if len(pieces) > 1 + table.num_rows // _FEW_ROWS:
        pieces = table.combine_chunks().to_batches()
    return pieces


def record_columns(piece: pa.RecordBatch) -> Columns:
    """The columns of rows of one partition."""

    def column(name: str) -> pa.Array:
        return piece[name].cast(ARROW_SCHEMA.field(name).type)

    return Columns(
        offsets=column(OFFSET),
        timestamps=column(TIMESTAMP),
        timestamp_types=column(TIMESTAMP_TYPE),
        keys=column(KEY),
        headers=column(HEADERS),
        values=column(VALUE),
        records=column(RECORD),
    )
