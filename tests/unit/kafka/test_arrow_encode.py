"""Batches made from columns are, byte for byte, those that the plain encoder makes."""

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.kafka.batch import APPEND_TIME_FLAG, HEADER_BYTES, verify
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, RecordHeader, decode_records, encode_batch
from lakestream_spark.table.arrow_rows import batches_of
from lakestream_spark.table.columns import (
    ARROW_SCHEMA,
    HEADERS,
    RECORD,
    TIMESTAMP,
    TIMESTAMP_TYPE,
)
from lakestream_spark.table.rows import Row, to_arrow
from tests.support.record_bytes import CODECS, I64, parse, record_lists


def encoded(
    rows: Sequence[Row], next_offset: int, codec: Codec = Codec.NONE, limit: int = 300
) -> list[bytes]:
    span = (0, next_offset)
    return list(batches_of(to_arrow(0, rows), span, codec=codec, max_batch_bytes=limit))


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    """Rows in offset order, stretches of append time among them."""
    records = draw(record_lists(20))
    rows: list[Row] = []
    for record in records:
        append_time = draw(st.booleans())
        if append_time and rows and draw(st.booleans()):
            record = record._replace(timestamp=rows[-1].record.timestamp)
        rows.append(Row(record, append_time))
    return rows


@given(rows=row_lists(), codec=CODECS, hole=st.integers(0, 5), limit=st.integers(80, 600))
def test_batches_are_those_of_the_reference(
    rows: list[Row], codec: Codec, hole: int, limit: int
) -> None:
    next_offset = rows[-1].record.offset + 1 + hole
    batches = encoded(rows, next_offset, codec, limit)
    left = list(rows)
    for batch in batches:
        verify(batch, where="test")
        header = parse(batch)
        own, left = left[: header.record_count], left[header.record_count :]
        after = left[0].record.offset if left else next_offset
        assert batch == encode_batch(
            [row.record for row in own],
            last_offset=after - 1,
            codec=codec,
            append_time=own[0].append_time,
        )
        assert {row.append_time for row in own} == {bool(header.attributes & APPEND_TIME_FLAG)}
        assert [row.record for row in own] == decode_records(batch, header)
    assert left == []


@given(rows=row_lists(), limit=st.integers(80, 600))
def test_a_batch_is_not_above_its_limit_unless_one_record_is(rows: list[Row], limit: int) -> None:
    batches = encoded(rows, rows[-1].record.offset + 1, limit=limit)
    assert all(len(batch) <= limit or parse(batch).record_count == 1 for batch in batches)


def test_batches_are_nearly_as_large_as_the_limit_allows() -> None:
    rows = [Row(Record(n, 1_700_000_000_000 + n, None, b"v" * 90), False) for n in range(2_000)]
    batches = encoded(rows, 2_000, limit=10_000)
    assert all(9_000 < len(batch) <= 10_000 for batch in batches[:-1])


def test_batches_reach_from_one_to_the_next_and_the_last_to_the_end() -> None:
    rows = [Row(Record(offset, 0, None, b"v" * 200), False) for offset in (3, 7, 9)]
    headers = [parse(batch) for batch in encoded(rows, 15)]
    assert [(header.base_offset, header.offsets) for header in headers] == [(3, 4), (7, 2), (9, 6)]


def test_offsets_further_apart_than_32_bits_are_in_batches_of_their_own() -> None:
    rows = [Row(Record(offset, 0, None, b""), False) for offset in (0, 5, 2**40)]
    headers = [parse(batch) for batch in encoded(rows, 2**41)]
    assert [header.record_count for header in headers] == [2, 1]
    assert [header.last_offset_delta for header in headers] == [2**31 - 1, 2**31 - 1]


def test_no_rows_are_one_batch_that_covers_the_hole() -> None:
    (batch,) = batches_of(to_arrow(0, []), (5, 9), codec=Codec.LZ4)
    header = parse(batch)
    assert (header.base_offset, header.offsets, header.record_count) == (5, 4, 0)


def test_rows_of_foreign_files_are_encoded_in_offset_order_whatever_their_types() -> None:
    rows = [Row(Record(n, n, b"k", b"v", (RecordHeader(b"h", None),)), False) for n in range(9)]
    table = to_arrow(0, [*rows[4:], *rows[:4]])
    small = pa.schema([field.with_type(_small(field.type)) for field in ARROW_SCHEMA])
    batches = list(batches_of(table.cast(small), (0, 9), codec=Codec.NONE))
    assert batches == encoded(rows, 9, limit=1 << 20)


def _small(kind: pa.DataType) -> pa.DataType:
    if kind == pa.large_binary():
        return pa.binary()
    if not pa.types.is_large_list(kind):
        return kind
    header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    return pa.list_(pa.field("element", header, nullable=False))


def test_chunks_and_slices_of_a_table_are_encoded_as_the_whole() -> None:
    headers = [tuple(RecordHeader(b"%d" % n, b"x") for n in range(k % 3)) for k in range(30)]
    rows = [
        Row(Record(n, n, None if n % 4 else b"k", b"v%d" % n, headers[n]), False) for n in range(30)
    ]
    table = to_arrow(0, rows)
    pieces = pa.concat_tables([table.slice(0, 7), table.slice(7, 1), table.slice(8)])
    assert list(batches_of(pieces, (0, 30), codec=Codec.NONE)) == encoded(rows, 30, limit=1 << 20)
    part = list(batches_of(table.slice(11, 9), (11, 20), codec=Codec.NONE))
    assert part == encoded(rows[11:20], 20, limit=1 << 20)


def test_rows_without_time_type_or_header_list_are_encoded_as_having_none() -> None:
    table = to_arrow(0, [Row(Record(4, 99, b"k", b"v"), append_time=True)])
    for name in (TIMESTAMP, TIMESTAMP_TYPE, HEADERS):
        at = table.schema.get_field_index(name)
        field = table.schema.field(name)
        table = table.set_column(at, field, pa.nulls(1, field.type))
    (batch,) = batches_of(table, (4, 5), codec=Codec.NONE)
    assert decode_records(batch, parse(batch)) == [Record(4, -1, b"k", b"v")]


@given(time=I64, key=st.none() | st.binary(max_size=3))
def test_the_whole_record_of_a_row_outranks_its_columns(time: int, key: bytes | None) -> None:
    whole = Record(0, time, key, None, (RecordHeader(b"\xff", b"1"), RecordHeader(b"", None)))
    plain = Record(1, 5, b"k", b"v")
    table = to_arrow(0, [Row(whole, False), Row(plain, False)])
    assert table[RECORD].null_count == 1
    columns = to_arrow(0, [Row(plain._replace(offset=0), False), Row(plain, False)])
    index = table.schema.get_field_index(RECORD)
    columns = columns.set_column(index, ARROW_SCHEMA.field(RECORD), table[RECORD])
    (batch,) = batches_of(columns, (0, 2), codec=Codec.NONE)
    assert decode_records(batch, parse(batch)) == [whole, plain]


def test_an_offset_that_is_there_twice_is_refused() -> None:
    row = Row(Record(4, 0, None, b""), append_time=False)
    with pytest.raises(ValueError, match="do not rise"):
        encoded([row, row], 5)


def test_large_tables_are_encoded_group_by_group() -> None:
    rows = [Row(Record(n, n, None, b"v" * 20_000), False) for n in range(700)]
    batches = encoded(rows, 700, limit=256 * 1024)
    assert sum(parse(batch).record_count for batch in batches) == 700
    for one, other in pairwise(map(parse, batches)):
        assert one.base_offset + one.offsets == other.base_offset
    records = [record for batch in batches for record in decode_records(batch, parse(batch))]
    assert records == [row.record for row in rows]
    assert max(map(len, batches)) > HEADER_BYTES
