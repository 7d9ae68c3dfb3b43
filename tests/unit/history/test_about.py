"""What there is to say of a table to people."""

from pathlib import Path

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.history.about import TableFacts
from lakestream_spark.history.messages import Question
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.history import LocalHistory, append_rows, history_process
from tests.support.tables import TableFiles, rows


def test_files_and_snapshots_are_those_of_the_table(
    topic: Topic, tables: StreamCatalog, files: TableFiles, history: LocalHistory
) -> None:
    sizes = []
    for n in range(12):
        append_rows(tables, files, rows(n, [b"v" * 50 * n]), start=n, end=n + 1)
    table = tables.load(files.layout)
    assert table is not None
    sizes = sorted(task.file.file_size_in_bytes for task in table.scan().plan_files())
    found = history.reader.about(Question.about(topic))
    assert (found.table, found.files, found.size) == ("streams.orders", 12, sum(sizes))
    assert found.median_bytes == (sizes[5] + sizes[6]) // 2
    assert found.snapshots.total == 12
    newest = found.snapshots.newest
    assert [each.total_rows for each in newest] == list(range(12, 2, -1))
    assert {each.rows for each in newest} == {1}
    assert newest[0].snapshot_id == table.metadata.current_snapshot_id
    assert newest[0].operation == "append"
    assert TableFacts.from_body(found.to_body()) == found


@pytest.mark.long
async def test_the_process_that_reads_tables_tells_it_too(
    tmp_path: Path, topic: Topic, tables: StreamCatalog, files: TableFiles
) -> None:
    async with history_process(tmp_path) as history:
        with pytest.raises(Unavailable, match="no table yet"):
            await history.about(topic)
        append_rows(tables, files, rows(0, [b"a", b"b"]), start=0, end=2)
        found = await history.about(topic)
        assert (found.files, found.snapshots.newest[0].rows) == (1, 2)
