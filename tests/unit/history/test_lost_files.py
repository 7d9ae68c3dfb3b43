"""A file that is lost costs its own rows, and nothing else."""

from pathlib import Path

import pytest
from pyiceberg.table import Table

from lakestream_spark.core.errors import Corrupt, LostFile
from lakestream_spark.history.messages import Question
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.history import local_history, records_in
from tests.support.rewriting import rewrite
from tests.support.stream_tables import StreamTable, foreign_rows
from tests.support.tables import TableFiles


@pytest.fixture
def stream(files: TableFiles, tables: StreamCatalog) -> StreamTable:
    made = StreamTable(tables=tables, files=files)
    made.append(20)
    return made


def rewritten_in_two(table: Table) -> list[Path]:
    """Another engine leaves files with the offsets 0 to 9 and 10 to 19."""
    rows = table.scan().to_arrow().sort_by("__offset")
    paths = rewrite(table, [rows.slice(0, 10), rows.slice(10)], row_group_rows=5)
    return [Path(path.removeprefix("file://")) for path in paths]


def read(folder: Path, topic: Topic, offset: int) -> list[int]:
    """By a reader that knows nothing yet."""
    with local_history(folder) as history:
        return [record.offset for record in records_in(history.read(topic, offset))]


@pytest.mark.parametrize(("lost", "first"), [(0, 10), (1, 0)])
def test_other_offsets_are_read_beside_a_lost_file_of_a_rewrite(
    tmp_path: Path, stream: StreamTable, topic: Topic, lost: int, first: int
) -> None:
    paths = rewritten_in_two(stream.load())
    data = paths[lost].read_bytes()
    paths[lost].unlink()
    assert read(tmp_path, topic, first) == list(range(first, first + 10))
    with pytest.raises(Corrupt, match=f"data loss.*{paths[lost].name}"):
        read(tmp_path, topic, lost * 10)
    paths[lost].write_bytes(data)
    assert read(tmp_path, topic, 0) == list(range(20))


def test_nothing_is_appended_behind_a_lost_file_and_the_error_names_it(
    stream: StreamTable,
) -> None:
    path, _ = rewritten_in_two(stream.load())
    path.unlink()
    append = stream.next_append(1)
    with pytest.raises(LostFile, match=path.name) as lost:
        stream.tables.append(stream.files.layout, append)
    assert lost.value.facts["snapshot_id"] == stream.load().metadata.current_snapshot_id


def test_rows_that_came_unlawfully_are_not_served_beside_a_lost_file(
    tmp_path: Path, stream: StreamTable, topic: Topic
) -> None:
    _, path = rewritten_in_two(stream.load())
    path.unlink()
    stream.load().append(foreign_rows(stream.load(), [3]))
    assert read(tmp_path, topic, 0) == list(range(10))


def test_a_file_that_came_back_is_judged(tmp_path: Path, stream: StreamTable, topic: Topic) -> None:
    stream.load().append(foreign_rows(stream.load(), [7]))
    (path,) = (
        Path(task.file.file_path.removeprefix("file://"))
        for task in stream.load().scan().plan_files()
        if task.file.record_count == 1
    )
    data = path.read_bytes()
    path.unlink()
    with local_history(tmp_path) as history:
        with pytest.raises(Corrupt, match="data loss"):
            history.read(topic, 7)
        path.write_bytes(data)
        history.reader._topic(Question.read(topic, 0, 0, 1)).newer()
        found = records_in(history.read(topic, 0))
    assert [record.offset for record in found] == list(range(20))
