"""Whatever other engines make of the files: as long as the rows stay, the stream stays."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakestream_spark.core.ids import TopicId
from lakestream_spark.history import sections
from lakestream_spark.kafka.records import Record
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.columns import ARROW_SCHEMA
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.rows import from_arrow, to_arrow
from tests.support.delete_files import delete_by_equality, delete_positions
from tests.support.history import LocalHistory, end_of, local_history, records_in
from tests.support.ingress_process import eventually
from tests.support.rewriting import data_files, rewrite
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles, rows


@pytest.fixture(autouse=True)
def small_blocks() -> Iterator[None]:
    """A few rows are several blocks."""
    with patch.multiple(sections, BLOCK_BYTES=100, _WINDOW_BYTES=300, _MIN_BLOCK_ROWS=2):
        yield


def new_stream(folder: Path, tables: StreamCatalog) -> tuple[StreamTable, Topic]:
    topic = Topic(id=TopicId(uuid4()), name=f"t{uuid4().hex}", partitions=2, created_ms=0)
    files = TableFiles.of(folder, tables, topic)
    return StreamTable(tables=tables, files=files), topic


def read_all(
    history: LocalHistory, topic: Topic, end: int, *, max_bytes: int, partition: int = 0
) -> list[Record]:
    """As a consumer does: from where the last answer ended."""
    found: list[Record] = []
    at = 0
    while at < end:
        data = history.read(topic, at, max_bytes, partition)
        found += [record for record in records_in(data) if record.offset >= at]
        assert end_of(data) > at
        at = end_of(data)
    assert at == end
    return found


@st.composite
def layouts(draw: st.DrawFn) -> tuple[int, list[list[int]], int, int, set[int]]:
    """How many rows, which of them in which file and order, row group size, bytes, and deletes."""
    count = draw(st.integers(1, 24))
    kept = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=count))
    if draw(st.booleans()):
        kept.sort()
    cuts = sorted(draw(st.lists(st.integers(0, len(kept)), max_size=3)))
    borders = [0, *cuts, len(kept)]
    files = [kept[a:b] for a, b in pairwise(borders) if a < b]
    gone = draw(st.sets(st.integers(0, count - 1), max_size=6))
    return count, files, draw(st.integers(1, 9)), draw(st.integers(1, 400)), gone


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=layouts())
def test_every_row_that_is_left_is_served_once_and_in_order(
    tmp_path: Path, tables: StreamCatalog, layout: tuple[int, list[list[int]], int, int, set[int]]
) -> None:
    count, parts, group_rows, max_bytes, gone = layout
    stream, topic = new_stream(tmp_path, tables)
    stream.append(count)
    made = rows(0, [str(offset).encode() for offset in range(count)])
    contents = [to_arrow(0, [made[offset] for offset in own]) for own in parts]
    paths = rewrite(stream.load(), contents, row_group_rows=group_rows)
    for path, own in zip(paths, parts, strict=True):
        positions = [at for at, offset in enumerate(own) if offset in gone]
        if positions:
            delete_positions(stream.load(), path, positions)
    left = sorted(offset for own in parts for offset in own if offset not in gone)
    with local_history(tmp_path) as history:
        found = read_all(history, topic, count, max_bytes=max_bytes)
    assert found == [made[offset].record for offset in left]


def test_files_of_a_table_that_is_not_partitioned_any_more_hold_several_partitions(
    tmp_path: Path, tables: StreamCatalog
) -> None:
    stream, topic = new_stream(tmp_path, tables)
    stream.append(4)
    stream.append(5, partition=1)
    with stream.load().update_spec() as update:
        update.remove_field("__partition")
    table = stream.load()
    both = table.scan().to_arrow().cast(ARROW_SCHEMA).sort_by([("__offset", "descending")])
    rewrite(table, [both], row_group_rows=3)
    with local_history(tmp_path) as history:
        for partition, count in ((0, 4), (1, 5)):
            found = read_all(history, topic, count, max_bytes=1, partition=partition)
            assert [record.value for record in found] == [str(n).encode() for n in range(count)]


def test_files_without_statistics_and_with_other_types_are_read_all_the_same(
    tmp_path: Path, tables: StreamCatalog
) -> None:
    stream, topic = new_stream(tmp_path, tables)
    stream.append(6)
    table = stream.load()
    plain = table.scan().to_arrow()
    for name in ("__key", "__value", "__record"):
        index = plain.schema.get_field_index(name)
        plain = plain.set_column(index, pa.field(name, pa.binary()), plain[name].cast(pa.binary()))
    with patch.dict(table.metadata.properties, {"write.metadata.metrics.column.__offset": "none"}):
        rewrite(table, [plain.slice(3), plain.slice(0, 3)], row_group_rows=2)
    assert all(2 not in file.lower_bounds for file in data_files(stream.load()))
    with local_history(tmp_path) as history:
        found = read_all(history, topic, 6, max_bytes=1)
    assert found == [row.record for row in from_arrow(plain)]


def test_a_rewrite_whose_old_files_go_at_once_is_invisible_to_a_reader(
    tmp_path: Path, tables: StreamCatalog
) -> None:
    stream, topic = new_stream(tmp_path, tables)
    for _ in range(3):
        stream.append(4)
    with local_history(tmp_path) as history:
        assert end_of(history.read(topic, 0, 1)) == 2
        table = stream.load()
        old = [Path(file.file_path.removeprefix("file://")) for file in data_files(table)]
        rewrite(table, [table.scan().to_arrow()], row_group_rows=100)
        for path in old:
            path.unlink()
        found = read_all(history, topic, 12, max_bytes=1)
    assert [record.value for record in found] == [str(offset).encode() for offset in range(12)]


def test_an_erased_row_leaves_the_stream_of_a_reader_that_goes_on(
    tmp_path: Path, tables: StreamCatalog
) -> None:
    stream, topic = new_stream(tmp_path, tables)
    stream.append(4)
    with local_history(tmp_path) as history:
        assert len(records_in(history.read(topic, 0))) == 4
        stream.load().delete("__offset = 1")
        eventually(lambda: len(records_in(history.read(topic, 0))) == 3)
        (path,) = [file.file_path for file in data_files(stream.load())]
        delete_positions(stream.load(), path, [0])
        eventually(lambda: [r.offset for r in records_in(history.read(topic, 0))] == [2, 3])


def test_rows_deleted_by_equality_are_served_until_the_delete_is_applied(
    tmp_path: Path, tables: StreamCatalog
) -> None:
    """Such a delete cannot be judged: the table is red, and says how to mend it."""
    stream, topic = new_stream(tmp_path, tables)
    stream.append(3)
    delete_by_equality(stream.load(), 1)
    with local_history(tmp_path) as history:
        assert [r.offset for r in records_in(history.read(topic, 0))] == [0, 1, 2]
