import io

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.kafka.records import Record, RecordHeader
from lakestream_spark.table.columns import ARROW_SCHEMA, RECORD
from lakestream_spark.table.rows import Row, from_arrow, to_arrow

NULLABLE = st.none() | st.binary(max_size=30)
HEADERS = st.lists(st.builds(RecordHeader, st.binary(max_size=6), NULLABLE), max_size=4)
RECORDS = st.builds(
    Record,
    st.integers(0, 2**62),
    st.integers(-(2**63), 2**63 - 1),
    NULLABLE,
    NULLABLE,
    HEADERS.map(tuple),
)
ROWS = st.lists(st.builds(Row, RECORDS, st.booleans()), unique_by=lambda row: row.record.offset)


@given(rows=ROWS)
def test_any_record_comes_back_exactly_from_parquet_and_in_offset_order(rows: list[Row]) -> None:
    parquet = io.BytesIO()
    pq.write_table(to_arrow(3, rows), parquet, store_schema=False)
    read = pq.read_table(parquet)
    assert list(from_arrow(read)) == sorted(rows, key=lambda row: row.record.offset)


def test_columns_hold_an_ordinary_record_without_the_encoded_one() -> None:
    record = Record(0, -1, b"", None, (RecordHeader("größe".encode(), None),))
    table = to_arrow(0, [Row(record, append_time=False)])
    assert table.schema.equals(ARROW_SCHEMA)
    assert table[RECORD].null_count == 1
