from uuid import UUID, uuid4

import pytest
from pyiceberg.table import TableProperties

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table import transactions
from lakestream_spark.table.append import TableAppend, TableState, Verdict
from lakestream_spark.table.columns import ICEBERG_SCHEMA, OFFSET, SORT_ORDER
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY, ENDS_PROPERTY
from lakestream_spark.table.transactions import commit
from tests.support.tables import TableFiles, rows


def append_of(file: DataFile, commit_id: UUID | None = None) -> TableAppend:
    return TableAppend(
        commit_id=commit_id or uuid4(),
        starts={file.partition: file.first},
        ends={file.partition: file.next},
        files=[file],
    )


def offsets(tables: StreamCatalog, files: TableFiles) -> list[int]:
    table = tables.load(files.layout)
    assert table is not None
    return sorted(table.scan(selected_fields=(OFFSET,)).to_arrow()[OFFSET].to_pylist())


def test_new_table_has_our_ids_and_comments(tables: StreamCatalog, files: TableFiles) -> None:
    assert tables.load(files.layout) is None
    table = tables.load_or_create(files.layout)
    assert table.schema() == ICEBERG_SCHEMA
    assert not any(key.startswith("commit.retry") for key in table.properties)


def test_append_puts_ends_and_commit_id_into_properties_and_summary(
    tables: StreamCatalog, files: TableFiles
) -> None:
    append = append_of(files.write(rows(0, [b"a", b"b"])))
    assert tables.append(files.layout, append) is Verdict.APPLY
    table = tables.load(files.layout)
    assert table is not None
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    for carrier in (table.properties, snapshot.summary.additional_properties):
        assert carrier[ENDS_PROPERTY] == "2"
        assert carrier[COMMIT_ID_PROPERTY] == str(append.commit_id)
    assert not any(key.startswith("commit.retry") for key in table.properties)


def test_repeated_append_is_recognised_by_its_commit_id(
    tables: StreamCatalog, files: TableFiles
) -> None:
    append = append_of(files.write(rows(0, [b"a", b"b"])))
    assert tables.append(files.layout, append) is Verdict.APPLY
    assert tables.append(files.layout, append) is Verdict.ALREADY_DONE
    assert offsets(tables, files) == [0, 1]


def test_other_append_from_the_same_start_is_stale(
    tables: StreamCatalog, files: TableFiles
) -> None:
    first, second = (append_of(files.write(rows(0, [b"a"]))) for _ in range(2))
    assert tables.append(files.layout, first) is Verdict.APPLY
    assert tables.append(files.layout, second) is Verdict.STALE
    assert offsets(tables, files) == [0]


def test_append_through_a_stale_handle_is_refused_and_not_tried_again(
    tables: StreamCatalog, files: TableFiles
) -> None:
    stale = tables.load_or_create(files.layout)
    first, second = (append_of(files.write(rows(0, [b"a"]))) for _ in range(2))
    tables.append(files.layout, first)
    with pytest.raises(Unavailable, match="changed meanwhile"):
        commit(stale, second, ends=second.ends)
    assert offsets(tables, files) == [0]


def test_file_description_comes_back_equal_and_prunes_by_offset(
    tables: StreamCatalog, files: TableFiles
) -> None:
    for first in (0, 2):
        file = files.write(rows(first, [b"a", b"b"]))
        assert DataFile.from_json(file.to_json()) == file
        tables.append(files.layout, append_of(file))
    table = tables.load(files.layout)
    assert table is not None
    planned = list(table.scan(f"{OFFSET} >= 2").plan_files())
    assert [task.file.record_count for task in planned] == [2]
    assert TableState.of(table).ends == {0: 4}


def test_table_has_the_unsorted_order_beside_ours_because_spark_updates_with_it(
    tables: StreamCatalog, files: TableFiles
) -> None:
    table = tables.load_or_create(files.layout)
    assert sorted(table.sort_orders()) == [0, 1]
    assert table.sort_order().fields == SORT_ORDER.fields
    tables.append(files.layout, append_of(files.write(rows(0, [b"a"]))))
    (task,) = tables.load_or_create(files.layout).scan().plan_files()
    assert task.file.sort_order_id == 1


def test_many_commits_leave_few_manifests(
    tables: StreamCatalog, files: TableFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(transactions._ON_THE_OBJECT, TableProperties.MANIFEST_MIN_MERGE_COUNT, "8")
    for offset in range(9):
        tables.append(files.layout, append_of(files.write(rows(offset, [b"a"]))))
    table = tables.load_or_create(files.layout)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) == 2
    assert not any(key.startswith("commit.") for key in table.properties)
    assert offsets(tables, files) == list(range(9))
