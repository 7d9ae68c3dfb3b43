"""A table or a metadata store that is older than the other, and tables that were damaged."""

from pathlib import Path
from uuid import UUID

import pytest
from pyiceberg.table import Table

from lakestream_spark.core.errors import RedTable
from lakestream_spark.table.append import Verdict
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.in_step import Known
from lakestream_spark.table.layout import ENDS_PROPERTY, TOPIC_ID_PROPERTY
from lakestream_spark.wal.ports import PartitionEnds
from tests.support.stream_tables import StreamTable, append_of
from tests.support.tables import rows


def known(*table_ends: int, high: int = 100) -> Known:
    """What the store says: the table ends of partitions 0, 1, …, and one high watermark."""
    return {p: PartitionEnds(0, end, high, high) for p, end in enumerate(table_ends)}


@pytest.fixture
def stream(tmp_path: Path, tables: StreamCatalog) -> StreamTable:
    made = StreamTable.new(tmp_path, tables, "orders")
    made.append(3)
    return made


def register(stream: StreamTable, metadata_file: str) -> None:
    """As the remedy of a red table says it."""
    identifier = stream.files.layout.identifier
    stream.tables._catalog.drop_table(identifier)
    stream.tables._catalog.register_table(identifier, metadata_file)


def file_in(red: pytest.ExceptionInfo[RedTable]) -> str:
    remedy = str(red.value.facts["remedy"])
    assert "register_table" in remedy
    return remedy.rpartition("', '")[2].removesuffix("')")


def test_older_metadata_that_was_registered_again_is_red_until_the_newest_is_back(
    stream: StreamTable,
) -> None:
    older = stream.load().metadata_location
    stream.append(3)
    append = stream.next_append(1)
    register(stream, older)
    with pytest.raises(RedTable, match="older state of the table") as red:
        stream.tables.append(stream.files.layout, append, known(6))
    register(stream, file_in(red))
    assert stream.tables.append(stream.files.layout, append, known(6)) is Verdict.APPLY
    assert stream.offsets() == list(range(7))


def test_dropped_table_is_not_made_anew_for_a_partition_that_starts_at_zero(
    stream: StreamTable,
) -> None:
    first_of_another = append_of(stream.files.write(rows(0, [b"x"]), partition=1))
    stream.tables._catalog.drop_table(stream.files.layout.identifier)
    with pytest.raises(RedTable, match="dropped the table") as red:
        stream.tables.append(stream.files.layout, first_of_another, known(3, 0))
    assert stream.tables.load(stream.files.layout) is None
    stream.tables._catalog.register_table(stream.files.layout.identifier, file_in(red))
    verdict = stream.tables.append(stream.files.layout, first_of_another, known(3, 0))
    assert verdict is Verdict.APPLY
    assert (stream.offsets(0), stream.offsets(1)) == ([0, 1, 2], [0])


def test_remedy_of_a_dropped_table_names_no_attempt_that_was_never_committed(
    stream: StreamTable,
) -> None:
    good = stream.load().metadata_location
    stream.append(3)
    attempt = stream.load().metadata_location
    register(stream, good)
    stream.tables._catalog.drop_table(stream.files.layout.identifier)
    with pytest.raises(RedTable) as red:
        stream.tables.check(stream.files.layout, known(3))
    assert file_in(red) == good != attempt


def test_table_beyond_what_the_store_gave_out_is_red_and_names_the_back_up(
    stream: StreamTable,
) -> None:
    append = append_of(stream.files.write(rows(0, [b"x"])))
    with pytest.raises(RedTable, match="restored from an older back-up"):
        stream.tables.append(stream.files.layout, append, known(0, high=1))
    assert stream.offsets() == [0, 1, 2]


def test_commits_that_the_store_was_never_told_of_are_red_and_not_stale_for_ever(
    stream: StreamTable,
) -> None:
    append = append_of(stream.files.write(rows(0, [b"x"])))
    with pytest.raises(RedTable, match="was told of 0 only"):
        stream.tables.append(stream.files.layout, append, known(0))
    # An old one, from before the store was told, is stale and no more.
    assert stream.tables.append(stream.files.layout, append, known(3)) is Verdict.STALE


def tear(table: Table) -> Path:
    path = Path(table.metadata_location.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:200])
    return path


def test_torn_metadata_file_is_red_and_holds_up_no_other_table(
    tmp_path: Path, stream: StreamTable
) -> None:
    before = stream.load().metadata_location
    stream.append(3)
    append = stream.next_append(1)
    torn = tear(stream.load())
    with pytest.raises(RedTable, match="damaged") as red:
        stream.tables.append(stream.files.layout, append)
    assert file_in(red) == before != str(torn)
    other = StreamTable.new(tmp_path, stream.tables, "others")
    other.append(1)
    stream.tables._catalog.rename_table("streams.others", "streams.elsewhere")
    assert other.offsets() == [0]


@pytest.mark.parametrize("value", ["garbage", "3,x", "-3"])
def test_ends_that_are_no_numbers_are_red(stream: StreamTable, value: str) -> None:
    append = stream.next_append(1)
    with stream.load().transaction() as transaction:
        transaction.set_properties({ENDS_PROPERTY: value})
    with pytest.raises(RedTable, match=ENDS_PROPERTY) as red:
        stream.tables.append(stream.files.layout, append)
    assert "SET TBLPROPERTIES ('lakestream.ends' = '3'" in str(red.value.facts["remedy"])


def test_ends_that_are_no_numbers_are_red_before_the_first_commit_too(
    tmp_path: Path, tables: StreamCatalog
) -> None:
    stream = StreamTable.new(tmp_path, tables, "empty")
    append = stream.next_append(1)
    with tables.load_or_create(stream.files.layout).transaction() as transaction:
        transaction.set_properties({ENDS_PROPERTY: "garbage"})
    with pytest.raises(RedTable, match="are not numbers") as red:
        tables.append(stream.files.layout, append)
    register(stream, file_in(red))
    assert tables.append(stream.files.layout, append) is Verdict.APPLY


@pytest.mark.parametrize("topic_id", [None, str(UUID(int=7))])
def test_topic_id_that_somebody_took_away_is_told_as_that(
    stream: StreamTable, topic_id: str | None
) -> None:
    append = stream.next_append(1)
    right = stream.load().properties[TOPIC_ID_PROPERTY]
    with stream.load().transaction() as transaction:
        if topic_id is None:
            transaction.remove_properties(TOPIC_ID_PROPERTY)
        else:
            transaction.set_properties({TOPIC_ID_PROPERTY: topic_id})
    with pytest.raises(RedTable, match=f"table property {TOPIC_ID_PROPERTY}") as red:
        stream.tables.append(stream.files.layout, append)
    assert f"('{TOPIC_ID_PROPERTY}' = '{right}')" in str(red.value.facts["remedy"])
