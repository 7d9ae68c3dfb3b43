"""Record batches <-> rows of the table, by the compiled kernels; `table.rows` is the plain way."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakestream_spark.kafka.arrow.columns import Columns
from lakestream_spark.kafka.arrow.decode import PIECE_BYTES, RefusedBatch, decode
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.kafka.codecs import MAX_DECOMPRESSED_BYTES
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
