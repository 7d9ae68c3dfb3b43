from uuid import uuid4

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.history.batches import encode_rows
from lakestream_spark.history.cursor import History
from lakestream_spark.history.locate import Span
from lakestream_spark.kafka.batch import verify, walk
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, TimestampedOffset, decode_records
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.rows import Row
from tests.support.tables import TableFiles, rows


def append(
    tables: StreamCatalog, files: TableFiles, written: list[Row], *, start: int, end: int
) -> None:
    tables.append(
        files.layout,
        TableAppend(
            commit_id=uuid4(), starts={0: start}, ends={0: end}, files=[files.write(written)]
        ),
    )


def records(data: bytes) -> list[Record]:
    verify(data, where="test")
    return [
        record
        for position, header in walk(data, where="test")
        for record in decode_records(data[position : position + header.size], header)
    ]


def covered(data: bytes) -> int:
    """The offset after the last one that the batches cover."""
    _, header = list(walk(data, where="test"))[-1]
    return header.base_offset + header.offsets


async def test_read_starts_at_the_offset_and_goes_on_over_files(
    tables: StreamCatalog, topic: Topic, files: TableFiles
) -> None:
    append(tables, files, rows(0, [b"a", b"b", b"c"]), start=0, end=3)
    append(tables, files, rows(3, [b"d", None]), start=3, end=5)
    data = await History(tables).read(topic, 0, 2, 1_000_000)
    assert [(r.offset, r.value) for r in records(data)] == [(2, b"c"), (3, b"d"), (4, None)]


async def test_hole_in_the_table_is_covered_by_the_batch_before_it(
    tables: StreamCatalog, topic: Topic, files: TableFiles
) -> None:
    append(tables, files, rows(0, [b"a"]), start=0, end=9)
    data = await History(tables).read(topic, 0, 0, 1_000_000)
    assert [r.offset for r in records(data)] == [0]
    assert covered(data) == 9


async def test_read_inside_a_hole_moves_the_consumer_on(
    tables: StreamCatalog, topic: Topic, files: TableFiles
) -> None:
    append(tables, files, rows(0, [b"a"]), start=0, end=9)
    data = await History(tables).read(topic, 0, 4, 1_000_000)
    assert records(data) == []
    assert covered(data) == 9


async def test_offset_beyond_the_table_is_unavailable_and_never_skipped(
    tables: StreamCatalog, topic: Topic, files: TableFiles
) -> None:
    history = History(tables)
    with pytest.raises(Unavailable):
        await history.read(topic, 0, 0, 1)
    append(tables, files, rows(0, [b"a"]), start=0, end=1)
    with pytest.raises(Unavailable):
        await history.read(topic, 0, 1, 1)


@pytest.mark.parametrize(("timestamp", "expected"), [(0, 0), (2, 2), (5, None), (2**62, None)])
async def test_search_by_time_finds_the_first_row_at_or_after(
    tables: StreamCatalog, topic: Topic, files: TableFiles, timestamp: int, expected: int | None
) -> None:
    append(tables, files, rows(0, [b"a", b"b", b"c"]), start=0, end=3)
    found = await History(tables).offset_for_timestamp(topic, 0, timestamp, 0)
    assert found == (None if expected is None else TimestampedOffset(expected, expected))


def test_append_time_makes_a_batch_for_each_time() -> None:
    times = [(0, 5, True), (1, 5, True), (2, 6, True), (3, 6, False), (4, 9, False)]
    sent = [Row(Record(offset, time, None, b""), kind) for offset, time, kind in times]
    data = b"".join(encode_rows(sent, Span(0, 0, 5), Codec.LZ4))
    assert [header.record_count for _, header in walk(data, where="test")] == [2, 1, 2]
    assert records(data) == [row.record for row in sent]
