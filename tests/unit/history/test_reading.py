"""Offsets of a table read back as batches."""

from collections import Counter

import numpy as np
import pytest

from lakestream_spark.core.errors import Corrupt, Unavailable
from lakestream_spark.history.tally import Counted
from lakestream_spark.kafka.batch import walk
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, TimestampedOffset
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.rows import Row
from tests.support.history import LocalHistory, append_rows, end_of, records_in
from tests.support.ingress_process import eventually
from tests.support.tables import TableFiles, rows

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""Milliseconds of the first and the last moment that have a date."""


def test_read_goes_on_over_files(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    append_rows(tables, files, rows(0, [b"a", b"b", b"c"]), start=0, end=3)
    append_rows(tables, files, rows(3, [b"d", None]), start=3, end=5)
    found = [(r.offset, r.value) for r in records_in(history.read(topic, 3))]
    assert found == [(3, b"d"), (4, None)]
    found = [(r.offset, r.value) for r in records_in(history.read(topic, 2)) if r.offset >= 2]
    assert found == [(2, b"c"), (3, b"d"), (4, None)]


def test_hole_is_covered_by_the_batch_before_it(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    append_rows(tables, files, rows(0, [b"a"]), start=0, end=9)
    append_rows(tables, files, rows(9, [b"b"]), start=9, end=20)
    data = history.read(topic, 0)
    assert [r.offset for r in records_in(data)] == [0, 9]
    assert [h.base_offset + h.offsets for _, h in walk(data, where="test")] == [9, 20]


def test_an_answer_that_is_cut_covers_the_hole_before_the_next_batch(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    append_rows(tables, files, rows(0, [b"a"]), start=0, end=9)
    append_rows(tables, files, rows(9, [b"b"]), start=9, end=10)
    data = history.read(topic, 0, max_bytes=1)
    assert [r.offset for r in records_in(data)] == [0]
    assert end_of(data) == 9


def test_read_inside_a_hole_moves_the_consumer_on(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    append_rows(tables, files, rows(0, [b"a"]), start=0, end=9)
    data = history.read(topic, 4)
    assert records_in(data) == []
    assert end_of(data) == 9
    append_rows(tables, files, rows(9, [b"b"]), start=9, end=10)
    history.read(topic, 9)  # which the known plan does not reach
    assert [r.offset for r in records_in(history.read(topic, 4))] == [9]


def test_offset_beyond_the_table_is_unavailable_and_never_skipped(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    with pytest.raises(Unavailable):
        history.read(topic, 0)
    append_rows(tables, files, rows(0, [b"a"]), start=0, end=1)
    with pytest.raises(Unavailable):
        history.read(topic, 1)
    with pytest.raises(Unavailable):
        history.read(topic, 0, partition=7)
    assert [r.offset for r in records_in(history.read(topic, 0))] == [0]


def test_what_is_committed_after_a_plan_is_read_at_once(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    for number in range(5):
        append_rows(tables, files, rows(number, [b"x"]), start=number, end=number + 1)
        assert records_in(history.read(topic, number))[-1].offset == number


def test_read_gives_whole_batches_up_to_the_bytes_asked_for(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    noise = np.random.default_rng(7)
    values: list[bytes | None] = [noise.bytes(1000) for _ in range(12_000)]
    append_rows(tables, files, rows(0, values), start=0, end=12_000)
    found: list[Record] = []
    while len(found) < len(values):
        data = history.read(topic, len(found), max_bytes=600_000)
        assert len(data) <= 600_000
        found += [r for r in records_in(data) if r.offset >= len(found)]
    assert [r.value for r in found] == values
    assert len(list(walk(history.read(topic, 0, max_bytes=1), where="test"))) == 1


def test_who_reads_on_finds_the_next_block_made(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    noise = np.random.default_rng(7)
    values: list[bytes | None] = [noise.bytes(10_000) for _ in range(1_000)]
    append_rows(tables, files, rows(0, values), start=0, end=1_000)
    counts: Counter[str] = Counter()

    def made_ahead() -> bool:
        counts.update(history.reader.tally.take().counts)
        return counts[Counted.AHEAD] > 0

    first = history.read(topic, 0, max_bytes=100_000)
    history.read(topic, end_of(first), max_bytes=100_000)
    eventually(made_ahead)
    assert counts[Counted.MISSES] == 1
    assert counts[Counted.HITS] == 1
    assert counts[Counted.ROWS] >= 2


@pytest.mark.parametrize(
    ("compression", "codec"),
    [("producer", Codec.LZ4), ("uncompressed", Codec.NONE), ("zstd", Codec.ZSTD)],
)
async def test_batches_are_compressed_as_the_topic_says(
    metadata: Metadata,
    tables: StreamCatalog,
    history: LocalHistory,
    files: TableFiles,
    compression: str,
    codec: Codec,
) -> None:
    topic = await metadata.topics.create("told", config={"compression.type": compression})
    own = TableFiles.of(files.folder, tables, topic)
    append_rows(tables, own, rows(0, [b"a" * 100]), start=0, end=1)
    data = history.read(topic, 0)
    assert [header.codec for _, header in walk(data, where="test")] == [codec]
    assert [r.value for r in records_in(data)] == [b"a" * 100]


def test_append_time_makes_a_batch_for_each_time(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    times = [(0, 5, True), (1, 5, True), (2, 6, True), (3, 6, False), (4, 9, False)]
    sent = [Row(Record(offset, time, None, b""), kind) for offset, time, kind in times]
    append_rows(tables, files, sent, start=0, end=5)
    data = history.read(topic, 0)
    assert [header.record_count for _, header in walk(data, where="test")] == [2, 1, 2]
    assert records_in(data) == [row.record for row in sent]


@pytest.mark.parametrize(
    "time",
    [-1, -(2**63), 2**63 - 1, 2**53, FIRST, LAST, FIRST - 1, LAST + 1],
)
def test_a_time_that_no_calendar_has_comes_back_and_keeps_nobody_from_the_table(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory, time: int
) -> None:
    sent = [Row(Record(0, time, b"k", b"v"), append_time=False), *rows(1, [b"a"])]
    append_rows(tables, files, sent, start=0, end=2)
    assert records_in(history.read(topic, 0)) == [row.record for row in sent]
    table = tables.load(files.layout)
    assert table is not None
    assert len(table.scan().to_arrow().to_pylist()) == 2
    expected = max((row.record for row in sent), key=lambda record: record.timestamp)
    found = history.newest(topic, range(2))
    assert found == TimestampedOffset(expected.offset, expected.timestamp)


def test_a_file_that_is_lost_is_an_error_that_names_it(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    append_rows(tables, files, rows(0, [b"a"]), start=0, end=1)
    (file,) = files.folder.rglob("*.parquet")
    file.unlink()
    with pytest.raises(Corrupt, match=file.name):
        history.read(topic, 0)


def test_a_file_that_is_damaged_is_an_error_that_names_it(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    append_rows(tables, files, rows(0, [b"a" * 1000] * 1000), start=0, end=1000)
    (file,) = files.folder.rglob("*.parquet")
    data = file.read_bytes()
    for damaged in (data[:-4] + b"nope", b"\xff" * (len(data) // 2) + data[len(data) // 2 :]):
        file.unlink()
        file.write_bytes(damaged)
        with pytest.raises(Corrupt, match=file.name):
            history.read(topic, 0)
