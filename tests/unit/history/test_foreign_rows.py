"""A consumer never sees a row that somebody put into the table without a lawful offset."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import Table

from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.columns import KEY
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import ENDS_PROPERTY
from tests.support.history import local_history, records_in
from tests.support.stream_tables import StreamTable, foreign_rows
from tests.support.tables import TableFiles


@pytest.fixture
def stream(tmp_path: Path, tables: StreamCatalog, topic: Topic) -> StreamTable:
    made = StreamTable(tables=tables, files=TableFiles.of(tmp_path, tables, topic))
    for _ in range(2):
        made.append(3)
    return made


def served(folder: Path, topic: Topic) -> list[tuple[int, bytes | None]]:
    """What a history that was just opened gives: it has no plan of a moment ago."""
    with local_history(folder) as history:
        return [(r.offset, r.value) for r in records_in(history.read(topic, 0))]


SENT = [(offset, str(offset).encode()) for offset in range(6)]


def insert(table: Table) -> None:
    table.append(foreign_rows(table, [3]))


def roll_back(table: Table) -> None:
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()


def roll_back_and_insert(table: Table) -> None:
    roll_back(table)
    insert(table)


def drop_a_column(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column(KEY)


def change_the_ends(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({ENDS_PROPERTY: "2"})


@pytest.mark.parametrize(
    "change", [insert, roll_back, roll_back_and_insert, drop_a_column, change_the_ends]
)
def test_consumers_of_a_red_table_get_what_was_sent(
    tmp_path: Path, topic: Topic, stream: StreamTable, change: Callable[[Table], None]
) -> None:
    change(stream.load())
    assert served(tmp_path, topic) == SENT


def test_deleted_row_is_not_served_though_an_insert_follows(
    tmp_path: Path, topic: Topic, stream: StreamTable
) -> None:
    stream.load().delete("__offset = 1")
    assert served(tmp_path, topic) == [SENT[0], *SENT[2:]]
    insert(stream.load())
    assert served(tmp_path, topic) == [SENT[0], *SENT[2:]]
