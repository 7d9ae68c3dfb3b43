"""Snapshots that others expired: what is served, and what is said of them."""

from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ExpireSnapshots

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableState
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.history import local_history, records_in
from tests.support.rewriting import rewrite
from tests.support.stream_tables import StreamTable, foreign_rows
from tests.support.tables import TableFiles


@pytest.fixture
def stream(files: TableFiles, tables: StreamCatalog) -> StreamTable:
    """Two commits of ten rows; the first is tagged, so that it never expires."""
    made = StreamTable(tables=tables, files=files)
    made.append(10)
    first = made.load().current_snapshot()
    assert first is not None
    made.load().manage_snapshots().create_tag(first.snapshot_id, "first").commit()
    made.append(10)
    return made


def newest(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def expire(table: Table, snapshot_id: int) -> None:
    with table.transaction() as transaction:
        ExpireSnapshots(transaction).by_id(snapshot_id).commit()


def rewrite_and_expire_our_newest(stream: StreamTable) -> None:
    ours = newest(stream.load())
    table = stream.load()
    rewrite(table, [table.scan().to_arrow().sort_by("__offset")], row_group_rows=5)
    expire(stream.load(), ours)


def test_a_rewrite_whose_commit_below_expired_is_served_up_to_its_end(
    tmp_path: Path, stream: StreamTable, topic: Topic
) -> None:
    rewrite_and_expire_our_newest(stream)
    lawful = stream.tables.load_lawful(stream.files.layout)
    assert lawful is not None
    assert TableState.of(lawful).ends == {0: 20}
    with local_history(tmp_path) as history:
        found = records_in(history.read(topic, 15))
    assert [record.offset for record in found] == list(range(15, 20))


def test_an_insert_whose_commit_below_expired_leaves_the_older_commit_with_its_own_end(
    tmp_path: Path, stream: StreamTable, topic: Topic
) -> None:
    ours = newest(stream.load())
    stream.load().append(foreign_rows(stream.load(), [70]))
    expire(stream.load(), ours)
    with local_history(tmp_path) as history:
        found = records_in(history.read(topic, 0))
        with pytest.raises(Unavailable, match="does not reach this offset yet"):
            history.read(topic, 15)
    assert [record.offset for record in found] == list(range(10))
