"""Ranges of offsets, planned and read without Spark: what is where, and what counts as lost."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lakestream_spark.core.errors import Corrupt, Unavailable
from lakestream_spark.reading import installation
from lakestream_spark.spark.reading.installation import Opened
from lakestream_spark.spark.reading.options import Edge, ReadOptions
from lakestream_spark.spark.reading.pieces import Piece
from lakestream_spark.spark.reading.place import known_logs, latest, logs
from lakestream_spark.spark.reading.planning import Losses, tasks_between
from lakestream_spark.spark.reading.position import Position, TopicPosition
from lakestream_spark.spark.reading.rows import RowReader
from lakestream_spark.table.file_offsets import bounds
from tests.support.embedded import catalog_spec
from tests.support.reading import Lake, lake_in


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("lake")) as found:
        yield found


@pytest.fixture
def topic(lake: Lake) -> str:
    name = f"t{uuid4().hex[:12]}"
    lake.create(name)
    return name


def send(lake: Lake, topic: str, first: int, after: int) -> None:
    lake.send(topic, [b"%d" % n for n in range(first, after)])


def planned(
    lake: Lake, topic: str, first: int = 0, *, start: Position | None = None, fail: bool = True
) -> list[Piece]:
    """What is to be read of the topic from an offset on."""
    with closing(Opened(installation(lake.data, None))) as opened:
        found = known_logs(opened, ReadOptions(topics=(topic,), starting=Edge.EARLIEST))
        begin = start or {topic: TopicPosition(found[topic].topic.id, {0: first})}
        tasks = tasks_between(opened, found, begin, latest(found), Losses(fail=fail))
    return [piece for task in tasks for piece in task]


def position(lake: Lake, topic: str) -> Position:
    with closing(Opened(installation(lake.data, None))) as opened:
        return latest(logs(opened, ReadOptions(topics=(topic,), starting=Edge.EARLIEST)))


def offsets(lake: Lake, pieces: list[Piece], *, fail: bool = True) -> list[int]:
    reader = RowReader(installation=installation(lake.data, None), fail_on_data_loss=fail)
    return [n for batch in reader.read(pieces) for n in batch["__offset"].to_pylist()]


def erase(lake: Lake, topic: str, condition: str) -> None:
    """As another engine deletes rows."""
    with closing(catalog_spec(lake.folder).open()) as catalog:
        catalog.load_table(("streams", topic)).delete(condition)


def data_files(lake: Lake, topic: str) -> list[Path]:
    """Of the table, in the order of their offsets."""
    with closing(catalog_spec(lake.folder).open()) as catalog:
        tasks = catalog.load_table(("streams", topic)).scan().plan_files()
        paths = {bounds(task.file)[1].first: task.file.file_path for task in tasks}
    return [Path(paths[first].removeprefix("file://")) for first in sorted(paths)]


def lose_a_segment(lake: Lake, topic: str, first: int, after: int) -> None:
    before = lake.segments()
    send(lake, topic, first, after)
    (lost,) = lake.segments() - before
    lost.unlink()


def test_a_piece_goes_from_the_table_into_the_wal_in_order(lake: Lake, topic: str) -> None:
    send(lake, topic, 0, 30)
    lake.commit()
    send(lake, topic, 30, 50)
    assert offsets(lake, planned(lake, topic)) == list(range(50))
    assert offsets(lake, planned(lake, topic, 17)) == list(range(17, 50))


def test_a_piece_that_was_planned_in_the_wal_is_read_from_the_table(lake: Lake, topic: str) -> None:
    send(lake, topic, 0, 30)
    pieces = planned(lake, topic)
    send(lake, topic, 30, 50)
    lake.commit()
    lake.forget_wal()
    assert offsets(lake, pieces) == list(range(30))


def test_erased_rows_are_left_out_and_files_that_others_wrote_are_read(
    lake: Lake, topic: str
) -> None:
    send(lake, topic, 0, 30)
    lake.commit()
    pieces = planned(lake, topic)
    erase(lake, topic, "__offset >= 3 and __offset < 7")
    kept = [n for n in range(30) if not 3 <= n < 7]
    assert offsets(lake, pieces) == kept
    assert offsets(lake, planned(lake, topic)) == kept


def test_a_loss_stops_those_who_read_it_and_nobody_else(lake: Lake, topic: str) -> None:
    send(lake, topic, 0, 10)
    before = planned(lake, topic)
    lose_a_segment(lake, topic, 10, 20)
    send(lake, topic, 20, 30)
    try:
        assert offsets(lake, before) == list(range(10))
        with pytest.raises(Corrupt, match="data loss"):
            offsets(lake, planned(lake, topic))
        kept = offsets(lake, planned(lake, topic), fail=False)
        assert kept == [*range(10), *range(20, 30)]
    finally:
        lake.drop(topic)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"PAR1 no more")])
def test_a_lost_or_damaged_file_of_the_table_costs_its_own_rows(
    lake: Lake, topic: str, damage: Callable[[Path], object]
) -> None:
    for first in (0, 10, 20):
        send(lake, topic, first, first + 10)
        lake.commit()
    damage(data_files(lake, topic)[1])
    try:
        with pytest.raises(Corrupt, match=r"data loss|damaged"):
            offsets(lake, planned(lake, topic))
        kept = offsets(lake, planned(lake, topic), fail=False)
        assert kept == [*range(10), *range(20, 30)]
    finally:
        lake.drop(topic)


def test_no_row_is_left_out_because_a_store_does_not_answer(
    lake: Lake, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 52")

    send(lake, topic, 0, 10)
    lake.commit()
    pieces = planned(lake, topic)
    with monkeypatch.context() as patched:
        patched.setattr(pq.ParquetFile, "read_row_group", lost)
        with pytest.raises(Unavailable, match="did not answer"):
            offsets(lake, pieces, fail=False)
    assert offsets(lake, pieces, fail=False) == list(range(10))


def test_a_topic_that_was_created_again_is_another(lake: Lake, topic: str) -> None:
    send(lake, topic, 0, 30)
    old = position(lake, topic)
    lake.drop(topic)
    lake.create(topic)
    send(lake, topic, 0, 5)
    with pytest.raises(Corrupt, match=r"deleted since it was read.*failOnDataLoss=false"):
        planned(lake, topic, start=old)
    assert offsets(lake, planned(lake, topic, start=old, fail=False)) == list(range(5))


def test_an_offset_beyond_the_end_is_a_loss(lake: Lake, topic: str) -> None:
    send(lake, topic, 0, 5)
    with pytest.raises(Corrupt, match="the log ends before"):
        planned(lake, topic, 9)
    assert planned(lake, topic, 9, fail=False) == []


def test_rows_outlive_the_log_start_and_are_lost_when_the_table_has_them_no_more(
    lake: Lake, topic: str
) -> None:
    send(lake, topic, 0, 30)
    lake.commit()
    admin = AdminClient({"bootstrap.servers": lake.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 20)]).values()
    deleted.result(60)
    assert offsets(lake, planned(lake, topic)) == list(range(30))
    erase(lake, topic, "__offset < 10")
    with pytest.raises(Corrupt, match="aged out before they were read"):
        planned(lake, topic)
    assert offsets(lake, planned(lake, topic, fail=False)) == list(range(10, 30))
