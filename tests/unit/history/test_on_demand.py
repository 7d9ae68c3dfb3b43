"""History that is opened by its first reader."""

import asyncio
from pathlib import Path

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.history.on_demand import HistoryOnDemand
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.tables import TableFiles, rows
from tests.unit.history.test_history import append, records


async def test_readers_that_come_at_once_share_one_history(
    tmp_path: Path, tables: StreamCatalog, topic: Topic, files: TableFiles
) -> None:
    append(tables, files, rows(0, [b"a", b"b"]), start=0, end=2)
    history = HistoryOnDemand(catalog_spec(tmp_path))
    data, found, newest = await asyncio.gather(
        history.read(topic, 0, 1, 1_000_000),
        history.offset_for_timestamp(topic, 0, 1, 0),
        history.offset_of_max_timestamp(topic, 0, 0),
    )
    assert [record.value for record in records(data)] == [b"b"]
    assert found is not None
    assert newest is not None
    assert (found.offset, newest.offset) == (1, 1)
    await history.close()


async def test_a_reader_that_gives_up_leaves_the_history_to_the_others(
    tmp_path: Path, tables: StreamCatalog, topic: Topic, files: TableFiles
) -> None:
    append(tables, files, rows(0, [b"a"]), start=0, end=1)
    history = HistoryOnDemand(catalog_spec(tmp_path))
    gone = asyncio.create_task(history.read(topic, 0, 0, 1_000_000))
    stays = asyncio.create_task(history.read(topic, 0, 0, 1_000_000))
    await asyncio.sleep(0)
    gone.cancel()
    assert [record.value for record in records(await stays)] == [b"a"]
    await history.close()


async def test_a_catalog_that_cannot_be_opened_is_tried_again_by_the_next_reader(
    tmp_path: Path, tables: StreamCatalog, topic: Topic, files: TableFiles
) -> None:
    append(tables, files, rows(0, [b"a"]), start=0, end=1)
    folder = tmp_path / "later"
    history = HistoryOnDemand(catalog_spec(folder))
    with pytest.raises(Unavailable, match="cannot be opened"):
        await history.read(topic, 0, 0, 1_000_000)
    folder.symlink_to(tmp_path)
    assert [record.value for record in records(await history.read(topic, 0, 0, 1_000_000))] == [
        b"a"
    ]
    await history.close()


async def test_a_history_that_nobody_read_closes_without_opening_anything(tmp_path: Path) -> None:
    history = HistoryOnDemand(catalog_spec(tmp_path))
    await history.close()
    assert list(tmp_path.iterdir()) == []
