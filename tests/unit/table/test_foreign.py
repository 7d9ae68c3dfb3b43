"""Others change the table through pyiceberg; what Spark does is in tests/integration/table."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.io import FileIO, InputFile
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, StringType

from lakestream_spark.core.errors import RedTable
from lakestream_spark.table.append import Verdict
from lakestream_spark.table.changes import Change, Runs
from lakestream_spark.table.columns import KEY, OFFSET, PARTITION
from lakestream_spark.table.foreign import Finding, judge
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY, ENDS_PROPERTY
from lakestream_spark.table.runs import Run
from tests.support.delete_files import delete_by_equality, delete_positions
from tests.support.stream_tables import StreamTable, foreign_rows
from tests.support.tables import rows

NO_ROWS: Runs = {}


@pytest.mark.parametrize(
    ("added", "removed", "finding"),
    [
        pytest.param(NO_ROWS, NO_ROWS, None, id="nothing"),
        pytest.param(NO_ROWS, {0: [Run(0, 9)]}, None, id="delete"),
        pytest.param({0: [Run(0, 9)]}, {0: [Run(0, 4), Run(4, 9)]}, None, id="merge"),
        pytest.param({0: [Run(0, 2), Run(3, 9)]}, {0: [Run(0, 9)]}, None, id="partial delete"),
        pytest.param({0: [Run(9, 10)]}, NO_ROWS, Finding(0, 9, False), id="insert"),
        pytest.param({0: [Run(0, 10)]}, {0: [Run(0, 9)]}, Finding(0, 9, False), id="one more"),
        pytest.param({1: [Run(0, 9)]}, {0: [Run(0, 9)]}, Finding(1, 0, False), id="moved"),
        pytest.param(
            {0: [Run(0, 5), Run(4, 9)]}, {0: [Run(0, 9)]}, Finding(0, 4, True), id="twice"
        ),
    ],
)
def test_change_is_lawful_when_what_came_is_distinct_and_among_what_went(
    added: Runs, removed: Runs, finding: Finding | None
) -> None:
    assert judge(Change(added=added, removed=removed)) == finding


@pytest.fixture
def stream(tmp_path: Path, tables: StreamCatalog) -> StreamTable:
    made = StreamTable.new(tmp_path, tables, "orders")
    for _ in range(2):
        made.append(3)
    return made


def insert(table: Table) -> None:
    table.append(foreign_rows(table, [100]))


def insert_what_is_there(table: Table) -> None:
    table.append(foreign_rows(table, [4]))


def list_a_file_twice(table: Table) -> None:
    (path, *_) = [task.file.file_path for task in table.scan().plan_files()]
    table.add_files([path], check_duplicate_files=False)


def move_an_offset(table: Table) -> None:
    table.overwrite(foreign_rows(table, [7]), f"{OFFSET} = 4")


@pytest.mark.parametrize("change", [insert, insert_what_is_there, list_a_file_twice])
def test_rows_that_others_add_make_the_table_red_until_they_are_gone(
    stream: StreamTable, change: Callable[[Table], None]
) -> None:
    ours = stream.load().current_snapshot()
    assert ours is not None
    change(stream.load())
    before = stream.offsets()
    with pytest.raises(RedTable) as red:
        stream.append(2)
    assert stream.offsets() == before
    assert red.value.facts["snapshot_id"] != ours.snapshot_id
    roll_back = f"CALL lake.system.rollback_to_snapshot('streams.orders', {ours.snapshot_id})"
    assert red.value.facts["remedy"] == roll_back
    stream.load().manage_snapshots().rollback_to_snapshot(ours.snapshot_id).commit()
    assert stream.append(2) is Verdict.APPLY
    assert stream.offsets() == list(range(8))


def test_update_of_an_offset_is_red(stream: StreamTable) -> None:
    move_an_offset(stream.load())
    with pytest.raises(RedTable, match="offset 7 of partition 0 was not there"):
        stream.append(1)


def test_first_unlawful_change_of_many_is_blamed(stream: StreamTable) -> None:
    stream.load().delete(f"{OFFSET} = 1")
    lawful = stream.load().current_snapshot()
    insert(stream.load())
    unlawful = stream.load().current_snapshot()
    stream.load().delete(f"{OFFSET} = 2")
    assert lawful is not None
    assert unlawful is not None
    with pytest.raises(RedTable, match="offset 100 of partition 0 was not there") as red:
        stream.append(1)
    # A delete of one row is two snapshots, and an insert comes after both.
    assert red.value.facts["snapshot_id"] == unlawful.snapshot_id
    assert str(lawful.snapshot_id) in str(red.value.facts["remedy"])


def delete_rows(table: Table) -> None:
    table.delete(f"{OFFSET} = 1")


def update_a_row(table: Table) -> None:
    table.overwrite(foreign_rows(table, [4]), f"{OFFSET} = 4")


def insert_and_delete_again(table: Table) -> None:
    insert(table)
    table.delete(f"{OFFSET} = 100")


def add_a_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note", StringType())


def drop_the_partitioning(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field(PARTITION)


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (delete_rows, {1}),
        (update_a_row, set()),
        (insert_and_delete_again, set()),
        (add_a_column, set()),
        (drop_the_partitioning, set()),
    ],
)
def test_lawful_changes_of_others_do_not_stop_the_stream(
    stream: StreamTable, change: Callable[[Table], None], gone: set[int]
) -> None:
    change(stream.load())
    for _ in range(2):
        assert stream.append(2) is Verdict.APPLY
    assert stream.offsets() == [offset for offset in range(10) if offset not in gone]


def test_roll_back_makes_the_table_red_until_our_newest_commit_is_back(
    stream: StreamTable,
) -> None:
    first, second = stream.load().snapshots()
    stream.load().manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    with pytest.raises(RedTable, match="rolled the table back") as red:
        stream.append(1)
    assert red.value.facts["remedy"] == (
        f"CALL lake.system.set_current_snapshot('streams.orders', {second.snapshot_id})"
    )
    stream.load().manage_snapshots().set_current_snapshot(second.snapshot_id).commit()
    stream.append(1)
    assert stream.offsets() == list(range(7))


def test_commit_that_was_rolled_back_is_not_taken_for_done(stream: StreamTable) -> None:
    append = stream.next_append(1)
    stream.tables.append(stream.files.layout, append)
    before = stream.load().snapshots()[1]
    stream.load().manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    with pytest.raises(RedTable):
        stream.tables.append(stream.files.layout, append)


def test_rows_in_a_table_that_never_had_a_commit_of_ours_are_red(
    tmp_path: Path, tables: StreamCatalog
) -> None:
    stream = StreamTable.new(tmp_path, tables, "empty")
    insert(tables.load_or_create(stream.files.layout))
    with pytest.raises(RedTable) as red:
        stream.append(1)
    assert red.value.facts["remedy"] == "DELETE FROM lake.streams.empty"
    stream.load().delete(f"{OFFSET} = 100")
    stream.append(1)
    assert stream.offsets() == [0]


def partition_by_bucket(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field(OFFSET, BucketTransform(4), "lot")


def rename_a_column(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column(KEY, "key")


def drop_a_column(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column(KEY)


def retype_a_column(table: Table) -> None:
    with table.update_schema() as update:
        update.update_column(PARTITION, LongType())


def change_the_ends(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({ENDS_PROPERTY: "5"})


def remove_the_commit_id(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.remove_properties(COMMIT_ID_PROPERTY)


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (partition_by_bucket, r"ALTER TABLE lake\.streams\.orders DROP PARTITION FIELD lot"),
        (rename_a_column, r"ALTER TABLE lake\.streams\.orders RENAME COLUMN key TO __key"),
        (drop_a_column, r"DROP TABLE .*; CALL lake.system.register_table\('streams.orders', '.*'"),
        (retype_a_column, r"DROP TABLE .*; CALL lake.system.register_table\('streams.orders', '.*"),
        (change_the_ends, r"SET TBLPROPERTIES \('lakestream.ends' = '6', 'lakestream.commit-id'"),
        (remove_the_commit_id, r"SET TBLPROPERTIES \('lakestream.ends' = '6', 'lakestream.commit"),
    ],
)
def test_form_that_we_cannot_write_makes_the_table_red(
    stream: StreamTable, change: Callable[[Table], None], remedy: str
) -> None:
    change(stream.load())
    with pytest.raises(RedTable) as red:
        stream.append(1)
    assert re.search(remedy, str(red.value.facts["remedy"]))
    assert stream.load().scan().to_arrow().num_rows == 6


def test_metadata_named_by_the_remedy_has_our_newest_commit_and_our_columns(
    stream: StreamTable, tables: StreamCatalog
) -> None:
    drop_a_column(stream.load())
    insert_nothing = stream.next_append(1)
    with pytest.raises(RedTable) as red:
        tables.append(stream.files.layout, insert_nothing)
    file = str(red.value.facts["remedy"]).rpartition("', '")[2].removesuffix("')")
    identifier = stream.files.layout.identifier
    tables._catalog.drop_table(identifier)
    tables._catalog.register_table(identifier, file)
    assert tables.append(stream.files.layout, insert_nothing) is Verdict.APPLY
    assert stream.offsets() == list(range(7))


def test_table_whose_newest_commit_was_expired_is_judged_by_its_ends(stream: StreamTable) -> None:
    ours = stream.load().current_snapshot()
    assert ours is not None
    delete_rows(stream.load())
    expire(stream.load(), ours.snapshot_id)
    stream.append(1)
    assert stream.offsets() == [0, 2, 3, 4, 5, 6]


def test_roll_back_whose_traces_were_expired_is_red_until_our_newest_commit_is_back(
    stream: StreamTable, tables: StreamCatalog
) -> None:
    first, second = stream.load().snapshots()
    append = stream.next_append(1)
    stream.load().manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    expire(stream.load(), second.snapshot_id)
    with pytest.raises(RedTable, match="rolled the table back") as red:
        tables.append(stream.files.layout, append)
    assert stream.offsets() == [0, 1, 2]
    file = str(red.value.facts["remedy"]).rpartition("', '")[2].removesuffix("')")
    identifier = stream.files.layout.identifier
    tables._catalog.drop_table(identifier)
    tables._catalog.register_table(identifier, file)
    assert tables.append(stream.files.layout, append) is Verdict.APPLY
    assert stream.offsets() == list(range(7))


def test_roll_back_below_a_change_of_others_whose_traces_were_expired_is_red(
    stream: StreamTable,
) -> None:
    first, second = stream.load().snapshots()
    stream.load().manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    delete_rows(stream.load())
    expire(stream.load(), second.snapshot_id)
    with pytest.raises(RedTable, match="rolled the table back"):
        stream.append(1)


def test_insert_after_our_newest_commit_was_expired_is_red(stream: StreamTable) -> None:
    ours = stream.load().current_snapshot()
    assert ours is not None
    insert(stream.load())
    expire(stream.load(), ours.snapshot_id)
    with pytest.raises(RedTable, match="offset 100"):
        stream.append(1)


def expire(table: Table, snapshot_id: int) -> None:
    with table.transaction() as transaction:
        ExpireSnapshots(transaction).by_id(snapshot_id).commit()


def test_append_after_our_own_commit_opens_no_manifest(
    stream: StreamTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    append = stream.next_append(1)
    io = type(stream.load().io)
    new_input = io.new_input

    def noted(self: FileIO, location: str) -> InputFile:
        opened.append(location)
        return new_input(self, location)

    monkeypatch.setattr(io, "new_input", noted)
    stream.tables.append(stream.files.layout, append)
    kinds = {re.sub(r".*/(snap-)?.*?(\.metadata)?(\.\w+)$", r"\1\2\3", path) for path in opened}
    # The newest metadata file and the list of manifests below the new one.
    assert kinds == {".metadata.json", "snap-.avro"}


def test_files_carry_no_partition_after_others_dropped_the_partitioning(
    stream: StreamTable,
) -> None:
    drop_the_partitioning(stream.load())
    stream.files.write(rows(0, [b"x"]))
    stream.append(1, partition=1)
    newest = max(stream.load().scan().plan_files(), key=lambda task: task.file.spec_id).file
    assert len(newest.partition) == 0
    assert stream.offsets(1) == [0]


def first_file(stream: StreamTable) -> str:
    files = (task.file for task in stream.load().scan(f"{OFFSET} = 0").plan_files())
    return next(file.file_path for file in files)


def test_rows_deleted_by_position_may_come_back_once_and_no_others(stream: StreamTable) -> None:
    delete_positions(stream.load(), first_file(stream), [1, 2])
    stream.append(1)
    assert stream.offsets() == [0, 3, 4, 5, 6]
    delete_positions(stream.load(), first_file(stream), [0])
    stream.load().append(foreign_rows(stream.load(), [0]))
    stream.append(1)
    assert stream.offsets() == [0, 3, 4, 5, 6, 7]
    stream.load().append(foreign_rows(stream.load(), [1]))
    with pytest.raises(RedTable, match="offset 1 of partition 0 was not there"):
        stream.append(1)


def test_delete_of_a_file_that_is_gone_gives_no_room_for_rows(stream: StreamTable) -> None:
    path = first_file(stream)
    stream.load().delete(f"{OFFSET} < 3")
    stream.append(1)
    delete_positions(stream.load(), path, [0, 1, 2])
    stream.load().append(foreign_rows(stream.load(), [1]))
    with pytest.raises(RedTable, match="offset 1 of partition 0 was not there"):
        stream.append(1)


def test_equality_deletes_are_red_until_they_are_applied(stream: StreamTable) -> None:
    delete_by_equality(stream.load(), 4)
    with pytest.raises(RedTable, match="deleted by equality") as red:
        stream.append(1)
    assert "rewrite_data_files" in str(red.value.facts["remedy"])
    assert "remove-dangling-deletes" in str(red.value.facts["remedy"])
