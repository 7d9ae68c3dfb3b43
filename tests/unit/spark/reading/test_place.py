"""Places in a topic, half of which is in its table: what offsets they mean."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

import pytest
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.update.snapshot import ExpireSnapshots

from lakestream_spark.core.errors import NotFound
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings.installation import installation_of
from lakestream_spark.spark.reading.installation import Opened
from lakestream_spark.spark.reading.options import AtSnapshot, AtTime, Edge, Place, ReadOptions
from lakestream_spark.spark.reading.place import TopicLog, latest, logs, resolve
from lakestream_spark.spark.reading.planning import Losses, tasks_between
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.wal.ports import PartitionEnds
from tests.support.embedded import embedded_lake
from tests.support.kafka import Sent, produce
from tests.support.lake_place import Place as LakePlace
from tests.support.verified import TOPIC, Platform

BEGAN_MS = 1_700_000_000_000
T = TypeVar("T")


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


def test_a_table_is_opened_and_planned_once_for_all_who_ask(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()
    for what, name in ((StreamCatalog, "open"), (ManifestFile, "fetch_manifest_entry")):
        monkeypatch.setattr(what, name, counted(calls, name, getattr(what, name)))
    of = logs(opened, ReadOptions(topics=(TOPIC,), starting=Edge.EARLIEST))
    start = resolve(opened, Edge.EARLIEST, of)
    for second in range(3):
        assert offset_of(opened, AtTime(BEGAN_MS + second * 1000)) == second
        assert len(tasks_between(opened, of, start, latest(of), Losses(fail=True))) == 1
    assert calls == {"open": 1, "fetch_manifest_entry": 1}


def counted(calls: Counter[str], name: str, plain: Callable[..., T]) -> Callable[..., T]:
    def call(*args: Any, **named: Any) -> T:
        calls[name] += 1
        return plain(*args, **named)

    return call


class Asked:
    """An installation whose answers are made up; rows have the time of their offset."""

    def __init__(self, wal: range, now: Mapping[int, PartitionEnds]) -> None:
        self.loop = self
        self.metadata = self.tables = self.wal = self
        self._wal = wal
        self._now = now
        self.asked = Counter[str]()
        self.searched: list[tuple[int, range]] = []

    def run(self, awaitable: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(awaitable)

    async def ends(self, _: TopicId) -> Mapping[int, PartitionEnds]:
        self.asked["ends"] += 1
        return self._now

    async def offset_for_timestamp(
        self, _: TopicPartition, timestamp_ms: int
    ) -> TimestampedOffset | None:
        self.asked["wal"] += 1
        return at(timestamp_ms, self._wal)

    def in_history(
        self, _: Topic, partition: int, timestamp_ms: int, offsets: range
    ) -> TimestampedOffset | None:
        self.searched.append((partition, offsets))
        return at(timestamp_ms, offsets)


def at(timestamp_ms: int, offsets: range) -> TimestampedOffset | None:
    return next((TimestampedOffset(n, n) for n in offsets if n >= timestamp_ms), None)


def ends(table_end: int) -> PartitionEnds:
    return PartitionEnds(log_start=0, high_watermark=20, last_stable=20, table_end=table_end)


def test_the_ends_are_read_once_for_the_times_of_all_partitions() -> None:
    topic = Topic(id=TopicId(uuid4()), name=TOPIC, partitions=4, created_ms=0)
    log = TopicLog(topic, {0: ends(10), 1: ends(5), 2: ends(0), 3: ends(5)})
    # What was in the table of partition 0; in the WAL; and what left it before it was looked at.
    asked = Asked(range(9, 20), {**log.borders, 3: ends(9)})
    found = resolve(cast(Opened, asked), AtTime(7), {TOPIC: log})
    assert found[TOPIC].offsets == {0: 7, 1: 9, 2: 9, 3: 7}
    assert asked.asked == {"ends": 1, "wal": 3}
    assert asked.searched == [(p, range(n)) for p, n in ((0, 10), (1, 5), (3, 5))] + [
        (3, range(5, 9))
    ]


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
