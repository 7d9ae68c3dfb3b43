import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, encode_batch
from lakestream_spark.table.arrow_rows import rows_of
from lakestream_spark.table.columns import ARROW_SCHEMA
from lakestream_spark.table.rows import Row, from_arrow, to_arrow
from tests.support.record_bytes import CODECS, record_lists

pytestmark = pytest.mark.timeout(600)  # the kernels are perhaps compiled first


@given(records=record_lists(), codec=CODECS)
def test_rows_are_those_of_the_plain_way_and_come_back_from_parquet(
    records: list[Record], codec: Codec
) -> None:
    (piece,) = rows_of(7, [Chunk(encode_batch(records, codec=codec))])
    rows = [Row(record, append_time=False) for record in records]
    assert piece.table.schema.equals(ARROW_SCHEMA, check_metadata=True)
    assert piece.table.equals(to_arrow(7, rows))
    parquet = io.BytesIO()
    pq.write_table(piece.table, parquet, store_schema=False)
    assert list(from_arrow(pq.read_table(parquet))) == rows


@given(st.lists(record_lists(), min_size=2, max_size=4))
def test_pieces_have_one_schema_and_can_be_written_one_after_the_other(
    batches: list[list[Record]],
) -> None:
    chunks = [Chunk(encode_batch(records)) for records in batches]
    pieces = list(rows_of(0, chunks, piece_bytes=1))
    assert len(pieces) == len(batches)
    together = pa.concat_tables([piece.table for piece in pieces])
    rows = [Row(record, append_time=False) for records in batches for record in records]
    assert together.equals(to_arrow(0, rows))
