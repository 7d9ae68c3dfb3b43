from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.table.update.snapshot import ExpireSnapshots

from lakestream_spark.core.errors import NotFound
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.snapshots import (
    ends_of_snapshot,
    points,
    snapshot_named,
    snapshot_reaching,
)
from tests.support.stream_tables import StreamTable, foreign_rows


@pytest.fixture
def stream(tmp_path: Path, tables: StreamCatalog) -> StreamTable:
    made = StreamTable.new(tmp_path, tables, "orders")
    for partition, count in ((0, 2), (1, 3), (0, 4)):
        made.append(count, partition=partition)
    return made


def test_every_snapshot_maps_to_the_ends_it_reaches(stream: StreamTable) -> None:
    found = points(stream.load())
    assert [point.ends for point in found] == [{0: 2}, {0: 2, 1: 3}, {0: 6, 1: 3}]
    for point in found:
        assert ends_of_snapshot(stream.load(), point.snapshot_id) == point


def test_snapshot_of_others_has_the_ends_of_ours_below_it(stream: StreamTable) -> None:
    stream.load().delete("__offset = 5")
    current = stream.load().current_snapshot()
    assert current is not None
    assert ends_of_snapshot(stream.load(), current.snapshot_id).ends == {0: 6, 1: 3}


@pytest.mark.parametrize(
    ("partition", "offset", "index"),
    [(0, 0, 0), (0, 1, 0), (0, 2, 2), (0, 5, 2), (1, 2, 1), (0, 6, None), (7, 0, None)],
)
def test_offset_maps_to_the_first_snapshot_that_has_it(
    stream: StreamTable, partition: int, offset: int, index: int | None
) -> None:
    found = snapshot_reaching(stream.load(), partition, offset)
    assert found == (None if index is None else points(stream.load())[index])


@pytest.mark.parametrize("tag", ["noon", "20260101"])
def test_tag_stands_for_its_snapshot(stream: StreamTable, tag: str) -> None:
    first = points(stream.load())[0].snapshot_id
    stream.load().manage_snapshots().create_tag(first, tag).commit()
    assert snapshot_named(stream.load(), tag) == snapshot_named(stream.load(), str(first))
    assert points(stream.load())[0].tags == (tag,)


def test_what_is_not_kept_is_not_found(stream: StreamTable) -> None:
    with pytest.raises(NotFound):
        ends_of_snapshot(stream.load(), 1)
    with pytest.raises(NotFound):
        snapshot_named(stream.load(), "midnight")


def expire_our_newest_below_a_delete(stream: StreamTable) -> int:
    """The snapshot of the delete, of whose ends nobody can tell any more."""
    ours = [point.snapshot_id for point in points(stream.load())]
    stream.load().delete("__offset = 5")
    with stream.load().transaction() as transaction:
        for snapshot_id in ours:
            ExpireSnapshots(transaction).by_id(snapshot_id).commit()
    current = stream.load().current_snapshot()
    assert current is not None
    return current.snapshot_id


def test_a_snapshot_whose_commit_below_expired_has_no_ends_rather_than_wrong_ones(
    stream: StreamTable,
) -> None:
    of_others = expire_our_newest_below_a_delete(stream)
    with pytest.raises(NotFound, match="the commit below it has expired"):
        ends_of_snapshot(stream.load(), of_others)
    assert points(stream.load()) == []
    stream.append(1)
    assert [point.ends for point in points(stream.load())] == [{0: 7, 1: 3}]


def test_what_others_put_into_a_new_table_reaches_nothing(stream: StreamTable) -> None:
    table = stream.tables.load_or_create(stream.tables.layout(TopicId(uuid4()), "another"))
    table.append(foreign_rows(table, [1]))
    current = table.current_snapshot()
    assert current is not None
    assert ends_of_snapshot(table, current.snapshot_id).ends == {}
