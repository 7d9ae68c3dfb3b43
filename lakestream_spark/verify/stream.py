"""What a Kafka consumer is given from the table equals the table's rows."""

from functools import reduce
from operator import xor
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.history.messages import Question
from lakestream_spark.history.reader import TableReader
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.kafka.batch import verify, walk
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.arrow_rows import rows_of
from lakestream_spark.table.cells import sums_of
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.expected import ExpectedCell

_READ_BYTES: Final = 256 * 1024


def check_stream(reader: TableReader, topic: Topic, cell: ExpectedCell, rows: pa.Table) -> int:
    """One answer of the broker's reader at one of these rows; how many offsets it covers."""
    start = rows[OFFSET][len(rows) // 2].as_py()
    question = Question.read(topic, cell.partition, start, _READ_BYTES)
    data = reader.read(question)
    verify(data, where=f"the stream of partition {cell.partition} at offset {start}")
    end = max(head.base_offset + head.offsets for _, head in walk(data, where="the stream"))
    end = min(end, cell.next)
    given = [piece.table for piece in rows_of(cell.partition, [Chunk(data)])]
    stored = _between(rows, start, end)
    streamed = rows.slice(0, 0)
    if given:
        records = pa.concat_tables(given)
        # Other files may have rows between these.
        streamed = records.filter(pc.is_in(records[OFFSET], stored[OFFSET].combine_chunks()))
    if _sum(streamed) != _sum(stored):
        raise Corrupt(
            "a consumer is given other records than the table has rows",
            partition=cell.partition,
            offsets=f"[{start}, {end})",
            records=len(streamed),
            rows=len(stored),
        )
    return int(end - start)


def _between(rows: pa.Table, first: int, after: int) -> pa.Table:
    offsets = rows[OFFSET]
    return rows.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, after)))


def _sum(rows: pa.Table) -> tuple[int, int]:
    sums = sums_of(rows)
    return sum(each.rows for each in sums), reduce(xor, (each.checksum for each in sums), 0)
