"""Batches as rows of the table, and those that could not be."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.batch import APPEND_TIME_FLAG, walk
from lakestream_spark.kafka.records import decode_records
from lakestream_spark.table.rows import Row, to_arrow


class Refused(NamedTuple):
    position: int
    reason: str


class Decoded(NamedTuple):
    rows: pa.Table
    refused: list[Refused]


def rows_of(partition: int, batches: Sequence[bytes]) -> Decoded:
    rows: list[Row] = []
    refused: list[Refused] = []
    for index, batch in enumerate(batches):
        ((_, header),) = walk(memoryview(batch), where="WAL")
        try:
            records = decode_records(batch, header)
        except InvalidBatch as error:
            refused.append(Refused(index, str(error)))
            continue
        append_time = bool(header.attributes & APPEND_TIME_FLAG)
        rows += (Row(record, append_time) for record in records)
    return Decoded(to_arrow(partition, rows), refused)
