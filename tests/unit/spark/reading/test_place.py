"""Places in a topic, half of which is in its table: what offsets they mean."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.table.update.snapshot import ExpireSnapshots

from lakestream_spark.core.errors import NotFound
from lakestream_spark.settings.installation import installation_of
from lakestream_spark.spark.reading.installation import Opened
from lakestream_spark.spark.reading.options import AtSnapshot, AtTime, Edge, Place, ReadOptions
from lakestream_spark.spark.reading.place import logs, resolve
from tests.support.embedded import embedded_lake
from tests.support.kafka import Sent, produce
from tests.support.lake_place import Place as LakePlace
from tests.support.verified import TOPIC, Platform

BEGAN_MS = 1_700_000_000_000


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """Offsets 0 to 9 are in the table and 10 to 19 in the WAL; each is a second after the one
    before."""
    found = Platform(folder=tmp_path)
    send(tmp_path, range(10))
    found.commit()
    send(tmp_path, range(10, 20))
    return found


def send(folder: Path, seconds: range) -> None:
    async def sent() -> None:
        async with embedded_lake(folder) as lake:
            if not await lake.metadata.topics.list():
                await lake.metadata.topics.create(TOPIC)
            records = [Sent(None, b"v", timestamp_ms=BEGAN_MS + each * 1000) for each in seconds]
            await asyncio.to_thread(produce, lake.bootstrap, TOPIC, records)

    asyncio.run(sent())


@pytest.fixture
def opened(platform: Platform) -> Iterator[Opened]:
    settings = LakePlace(data=str(platform.folder)).settings
    with closing(Opened(installation_of(settings))) as found:
        yield found


def offset_of(opened: Opened, place: Place) -> int:
    of = logs(opened, ReadOptions(topics=(TOPIC,), starting=Edge.EARLIEST))
    return resolve(opened, place, of)[TOPIC].offsets[0]


@pytest.mark.parametrize(
    ("later_ms", "offset"),
    [(0, 0), (4000, 4), (4001, 5), (9001, 10), (15_000, 15), (19_000, 19), (19_001, 20)],
)
def test_a_time_is_found_in_the_table_and_in_the_wal(
    opened: Opened, later_ms: int, offset: int
) -> None:
    assert offset_of(opened, AtTime(BEGAN_MS + later_ms)) == offset


def test_a_snapshot_is_found_by_its_tag_and_by_its_number(
    platform: Platform, opened: Opened
) -> None:
    table = platform.table()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_tag(snapshot.snapshot_id, "noon").commit()
    platform.commit()
    assert offset_of(opened, AtSnapshot("noon")) == 10
    assert offset_of(opened, AtSnapshot(str(snapshot.snapshot_id))) == 10
    with pytest.raises(NotFound, match="no such tag"):
        offset_of(opened, AtSnapshot("midnight"))


def test_a_snapshot_whose_commit_expired_is_no_place_to_begin(
    platform: Platform, opened: Opened
) -> None:
    ours = platform.table().current_snapshot()
    platform.table().delete("__offset = 5")
    of_others = platform.table().current_snapshot()
    assert ours is not None
    assert of_others is not None
    platform.table().manage_snapshots().create_tag(of_others.snapshot_id, "noon").commit()
    with platform.table().transaction() as transaction:
        ExpireSnapshots(transaction).by_id(ours.snapshot_id).commit()
    with pytest.raises(NotFound, match="the commit below it has expired"):
        offset_of(opened, AtSnapshot("noon"))
