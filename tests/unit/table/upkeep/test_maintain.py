"""Rounds of upkeep: leases, failures, and a committer that never stops."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Transient, Unavailable
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.tables import Intent, Quarantined
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend
from lakestream_spark.table.commit import lease_name
from lakestream_spark.table.delta_changes import live_files
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.upkeep import retention, snapshots
from lakestream_spark.table.upkeep.folder import TableFolder
from lakestream_spark.table.upkeep.maintain import Maintainer, TopicReport, maintain_lease
from lakestream_spark.table.upkeep.policy import (
    MergePolicy,
    OrphanPolicy,
    SnapshotPolicy,
    UpkeepPolicy,
)
from lakestream_spark.table.upkeep.topic import Tools
from tests.support.delta_tables import GrowingTable, in_delta, in_iceberg
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.local_rewriter import LocalRewriter
from tests.support.metadata import header, stored
from tests.support.syncs import note_syncs
from tests.support.tables import acknowledge

POLICY = UpkeepPolicy(
    merge=MergePolicy(min_files=4),
    snapshots=SnapshotPolicy(newest=5),
    orphans=OrphanPolicy(grace_ms=0, metadata_grace_ms=0),
    checkpoint_after=5,
    seldom_ms=0,
)
BOTH = {"lakestream.table.formats": "iceberg,delta"}


class Lake(NamedTuple):
    metadata: Metadata
    catalog: StreamCatalog
    tools: Tools
    folder: Path

    def maintainer(self, holder: str = "first", policy: UpkeepPolicy = POLICY) -> Maintainer:
        return Maintainer(
            replace(self.tools, policy=policy),
            self.metadata.topics,
            self.metadata.leases,
            self.metadata.problems,
            holder=holder,
        )

    def growing(self, topic: Topic) -> GrowingTable:
        layout = self.catalog.layout(topic.id, topic.name)
        return GrowingTable(spec=catalog_spec(self.folder), catalog=self.catalog, layout=layout)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[StreamCatalog]:
    opened = StreamCatalog.open(catalog_spec(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
async def lake(tmp_path: Path, catalog: StreamCatalog) -> AsyncIterator[Lake]:
    metadata = await open_metadata(metadata_url(tmp_path), clock=SystemClock())

    def load(identifier) -> Table:
        return catalog._catalog.load_table(tuple(identifier))

    tools = Tools(
        catalog=catalog,
        rewriter=LocalRewriter(load),
        intents=metadata.tables,
        cells=metadata.cells,
        log_starts=metadata.retention,
        clock=SystemClock(),
        policy=POLICY,
    )
    yield Lake(metadata, catalog, tools, tmp_path)
    await metadata.close()


def refuse(*_, **__):
    raise Unavailable("not now")


async def test_a_round_merges_expires_mirrors_and_sweeps(lake):
    topic = await lake.metadata.topics.create("orders", config=BOTH)
    orders = lake.growing(topic)
    for _ in range(8):
        orders.append(0)
    maintainer = lake.maintainer()
    report = (await maintainer.round())["orders"]
    assert not report.failed
    assert (report.done["files merged"], report.done["files made by merging"]) == (8, 1)
    table = orders.table
    (merged,) = live_files(table, table.current_snapshot()).values()
    assert merged.offsets == (0, 15)
    assert in_delta(orders.log) == in_iceberg(table) == [(0, offset) for offset in range(16)]

    for _ in range(8):
        orders.append(0)
    reports = [(await maintainer.round())["orders"] for _ in range(3)]
    assert sum(r.done.get("orphans deleted", 0) for r in [report, *reports]) > 0
    assert not any(r.failed for r in reports)
    assert in_delta(orders.log) == in_iceberg(orders.table) == [(0, n) for n in range(32)]


async def test_metrics_tell_what_was_done_and_since_when_nothing_was(lake, monkeypatch):
    topic = await lake.metadata.topics.create("counted")
    counted = lake.growing(topic)
    for _ in range(8):
        counted.append(0)
    await lake.maintainer().round()
    assert metrics.UPKEEP_MERGED_FILES.of("counted").value == 8
    assert metrics.UPKEEP_MERGED_BYTES.of("counted").value > 0
    assert metrics.UPKEEP_EXPIRED_SNAPSHOTS.of("counted").value > 0
    assert metrics.UPKEEP_DELETED_ORPHANS.of("counted").value > 0
    assert metrics.UPKEEP_DELETED_ORPHAN_BYTES.of("counted").value > 0
    assert metrics.UPKEEP_FAILURES.of("counted").value == 0
    age = metrics.UPKEEP_AGE.of("counted").now()
    assert age > 0

    monkeypatch.setattr(lake.catalog._catalog, "load_table", refuse)
    await lake.maintainer().round()
    assert metrics.UPKEEP_FAILURES.of("counted").value == 1
    assert metrics.UPKEEP_AGE.of("counted").now() > age


async def test_what_a_rewrite_wrote_is_on_the_disk_before_anything_old_may_go(lake, monkeypatch):
    topic = await lake.metadata.topics.create("orders")
    orders = lake.growing(topic)
    for _ in range(4):
        orders.append(0)

    def careless(identifier) -> Table:
        table = lake.catalog._catalog.load_table(tuple(identifier))
        table.io = PyArrowFileIO(table.io.properties)  # syncs nothing, as Spark
        return table

    synced_at_delete = []
    delete = TableFolder.delete

    def noted(folder: TableFolder, paths) -> int:
        synced_at_delete.append(set(synced))
        return delete(folder, paths)

    monkeypatch.setattr(TableFolder, "delete", noted)
    synced = note_syncs(monkeypatch)
    tools = replace(lake.tools, rewriter=LocalRewriter(careless))
    report = (await lake._replace(tools=tools).maintainer().round())["orders"]
    assert report.done["files merged"] == 4
    table = orders.table
    snapshot = table.current_snapshot()
    root = Path(table.location().removeprefix("file://"))
    (merged,) = live_files(table, snapshot)
    written = [root / merged, (root / merged).parent, Path(table.metadata_location[7:])]
    written += [Path(each.manifest_path[7:]) for each in snapshot.manifests(table.io)]
    written += [Path(snapshot.manifest_list[7:]), root / "_iceberg", root / "_data"]
    (before_deletes,) = synced_at_delete
    assert [path for path in written if path.stat().st_ino not in before_deletes] == []


async def test_an_idle_topic_costs_no_commit(lake):
    topic = await lake.metadata.topics.create("orders", config=BOTH)
    orders = lake.growing(topic)
    orders.append(0)
    maintainer = lake.maintainer()
    await maintainer.round()
    location, version = orders.table.metadata_location, orders.log.version()
    await maintainer.round()
    assert (orders.table.metadata_location, orders.log.version()) == (location, version)


async def test_topics_without_a_table_or_outside_the_pattern_are_left_alone(lake):
    await lake.metadata.topics.create("empty")
    await lake.metadata.topics.create("other")
    assert await lake.maintainer().round("e*") == {"empty": TopicReport()}


async def test_one_maintainer_works_on_a_topic(lake):
    topic = await lake.metadata.topics.create("orders")
    lake.growing(topic).append(0)
    lease = await lake.metadata.leases.try_acquire(maintain_lease(topic.id), "other", 30.0)
    assert lease is not None
    report = (await lake.maintainer().round())["orders"]
    assert report.left == "another maintainer is at work"
    await lake.metadata.leases.release(lease)
    assert (await lake.maintainer().round())["orders"].left is None
    assert (await lake.maintainer("third").round())["orders"].left is None


async def test_a_red_topic_is_left_as_it_is(lake):
    topic = await lake.metadata.topics.create("orders")
    orders = lake.growing(topic)
    for _ in range(6):
        orders.append(0)
    lease = await lake.metadata.leases.try_acquire(lease_name(topic.id), "committer", 30.0)
    assert lease is not None
    problem = Problem(topic.id, None, "somebody inserted rows", "roll it back", 1)
    await lake.metadata.problems.report(lease, problem)
    location = orders.table.metadata_location
    assert (await lake.maintainer().round())["orders"].left == "the topic is red"
    assert orders.table.metadata_location == location


async def commit(lake: Lake, topic: Topic, count: int) -> GrowingTable:
    """The next records, acknowledged, in the table and known to be there."""
    await acknowledge(lake.metadata, topic, [b"x"] * count)
    orders = lake.growing(topic)
    orders.append(0, values=[b"x"] * count)
    lease = await lake.metadata.leases.try_acquire(lease_name(topic.id), "committer", 30.0)
    assert lease is not None
    await lake.metadata.tables.finish(lease, topic.id, "commit", {0: count})
    return orders


async def test_change_of_an_idle_topic_is_told_with_its_remedy_until_it_is_mended(lake):
    topic = await lake.metadata.topics.create("orders")
    orders = await commit(lake, topic, 3)
    ours = orders.table.current_snapshot()
    assert ours is not None
    orders.table.append(orders.table.scan().to_arrow())
    for expected in ("the table is red: somebody's append", "the topic is red"):
        report = (await lake.maintainer().round())["orders"]
        assert report.left.startswith(expected)
        (problem,) = await lake.metadata.problems.list(topic.id)
        assert problem.partition is None
        assert problem.snapshot_id == orders.table.metadata.current_snapshot_id
        assert f"rollback_to_snapshot('streams.orders', {ours.snapshot_id})" in problem.remedy
    orders.table.manage_snapshots().rollback_to_snapshot(ours.snapshot_id).commit()
    assert (await lake.maintainer().round())["orders"].left is None
    assert await lake.metadata.problems.list(topic.id) == []


async def test_table_that_was_dropped_is_told(lake):
    topic = await lake.metadata.topics.create("orders")
    await commit(lake, topic, 3)
    lake.catalog._catalog.drop_table("streams.orders")
    await lake.maintainer().round()
    (problem,) = await lake.metadata.problems.list(topic.id)
    assert problem.sentence.startswith("somebody dropped the table")


async def test_what_the_committer_told_is_left_to_it_while_it_has_records_to_commit(lake):
    topic = await lake.metadata.topics.create("orders")
    await commit(lake, topic, 3)
    writer = await lake.metadata.writers.register(BrokerId(2), "cost")
    partition = TopicPartition(topic.id, 0)
    await lake.metadata.sequencer.commit(stored(writer, 1, (partition, [header(1)])))
    lease = await lake.metadata.leases.try_acquire(lease_name(topic.id), "committer", 30.0)
    told = Problem(topic.id, None, "only the committer can tell", "mend it", 1)
    await lake.metadata.problems.report(lease, told)
    assert (await lake.maintainer().round())["orders"].left == "the topic is red"
    assert await lake.metadata.problems.list(topic.id) == [told]


async def test_batches_of_lost_attempts_go_and_those_set_aside_stay(lake):
    topic = await lake.metadata.topics.create("orders")
    orders = lake.growing(topic)
    orders.append(0, values=[b"x"])
    await acknowledge(lake.metadata, topic, [b"x"] * 3)
    places = [orders.layout.quarantined_batch(0, 1, uuid4()) for _ in range(3)]
    files = [Path(place.removeprefix("file://")) for place in places]
    files[0].parent.mkdir(parents=True)
    for file in files:
        file.write_bytes(b"bytes")
    aside, intended, _ = (
        Quarantined(0, n, n + 1, place, "no records") for n, place in enumerate(places, 1)
    )
    lease = await lake.metadata.leases.try_acquire(lease_name(topic.id), "committer", 30.0)
    await lake.metadata.tables.finish(lease, topic.id, "first", {0: 2}, [aside])
    append = TableAppend(
        commit_id=topic.id, starts={0: 2}, ends={0: 3}, files=[], quarantined=[intended]
    )
    orders.catalog.append(orders.layout, replace(append, starts={0: 1}, ends={0: 2}))
    await lake.metadata.tables.save_intent(
        lease, intent_of(topic, replace(append, commit_id=uuid4()))
    )
    await lake.maintainer().round()
    assert [file.exists() for file in files] == [True, True, False]


async def test_rows_that_somebody_inserted_do_not_get_into_delta(lake):
    topic = await lake.metadata.topics.create("orders", config=BOTH)
    orders = lake.growing(topic)
    orders.append(0)
    await lake.maintainer().round()
    orders.table.append(orders.table.scan().to_arrow())
    report = (await lake.maintainer().round())["orders"]
    assert report.left is not None
    assert report.left.startswith("the table is red")
    assert in_delta(orders.log) == [(0, 0), (0, 1)]


async def test_a_topic_that_fails_does_not_stop_the_others(lake, monkeypatch):
    for name in ("a", "b"):
        topic = await lake.metadata.topics.create(name)
        for _ in range(6):
            lake.growing(topic).append(0)
    load = StreamCatalog.load

    def broken(catalog, layout):
        if layout.topic_name == "a":
            raise ZeroDivisionError("broken")
        return load(catalog, layout)

    monkeypatch.setattr(StreamCatalog, "load", broken)
    reports = await lake.maintainer().round()
    assert reports["a"].left == "it failed: broken"
    assert reports["b"].done["files merged"] == 6


async def test_a_step_that_fails_does_not_stop_the_next(lake, monkeypatch):
    topic = await lake.metadata.topics.create("orders", config=BOTH)
    orders = lake.growing(topic)
    for _ in range(6):
        orders.append(0)

    monkeypatch.setattr(LocalRewriter, "merge", refuse)
    report = (await lake.maintainer().round())["orders"]
    assert list(report.failed) == ["merge"]
    assert in_delta(orders.log) == in_iceberg(orders.table)


async def test_files_of_an_intent_are_no_orphans(lake):
    topic = await lake.metadata.topics.create("orders")
    orders = lake.growing(topic)
    orders.append(0)
    await acknowledge(lake.metadata, topic, [b"x"] * 3)
    planned = orders.write(0, 2, [b"planned"])
    stray = orders.write(0, 2, [b"stray"])
    append = TableAppend(commit_id=topic.id, starts={0: 2}, ends={0: 3}, files=[planned])
    lease = await lake.metadata.leases.try_acquire(lease_name(topic.id), "committer", 30.0)
    assert lease is not None
    await lake.metadata.tables.save_intent(lease, intent_of(topic, append))
    await lake.maintainer().round()
    assert not Path(stray.path.removeprefix("file://")).exists()
    assert Path(planned.path.removeprefix("file://")).exists()


def intent_of(topic: Topic, append: TableAppend) -> Intent:
    return Intent(topic_id=topic.id, commit_id=str(append.commit_id), plan=1, body=append.to_body())


async def past_retention(lake: Lake) -> tuple[Topic, GrowingTable]:
    """Four files whose times are of 1970, in a table that keeps a second."""
    config = {**BOTH, "lakestream.table.retention.ms": "1000"}
    topic = await lake.metadata.topics.create("orders", config=config)
    await acknowledge(lake.metadata, topic, [b"x"] * 8)
    orders = lake.growing(topic)
    for _ in range(4):
        orders.append(0)
    return topic, orders


async def test_retention_moves_the_log_start_before_rows_leave(lake):
    topic, orders = await past_retention(lake)
    report = (await lake.maintainer().round())["orders"]
    assert report.done["files past retention"] == 4
    assert in_iceberg(orders.table) == in_delta(orders.log) == []
    located = await lake.metadata.extents.locate(TopicPartition(topic.id, 0), 8, 1)
    assert located.ends.log_start == 8
    orders.append(0)
    assert in_iceberg(orders.table) == [(0, 8), (0, 9)]


async def test_a_log_that_may_have_few_bytes_begins_later_and_its_rows_stay(lake):
    topic = await lake.metadata.topics.create("orders", config={**BOTH, "retention.bytes": "1"})
    await acknowledge(lake.metadata, topic, [b"x"] * 6)
    orders = lake.growing(topic)
    for _ in range(3):
        orders.append(0)
    assert not (await lake.maintainer().round())["orders"].failed
    located = await lake.metadata.extents.locate(TopicPartition(topic.id, 0), 6, 1)
    assert located.ends.log_start == 4
    assert in_iceberg(orders.table) == [(0, n) for n in range(6)]


@pytest.mark.parametrize(("module", "name"), [(retention, "remove"), (snapshots, "apply")])
async def test_a_step_that_never_finds_the_table_alone_says_so(lake, monkeypatch, module, name):
    await past_retention(lake)
    monkeypatch.setattr(module, name, lambda *_: False)
    report = (await lake.maintainer().round())["orders"]
    (error,) = report.failed.values()
    assert "others committed to the table at each try" in str(error)


@pytest.mark.long
async def test_upkeep_beside_a_busy_committer_loses_and_doubles_nothing(lake):
    topic = await lake.metadata.topics.create("orders", config=BOTH)
    orders = lake.growing(topic)
    orders.append(0, 1)

    def commit() -> None:
        left = 12
        while left:
            try:
                orders.append(0, 1)
                left -= 1
            except Transient:
                continue
            time.sleep(0.2)

    committer = asyncio.create_task(asyncio.to_thread(commit))
    # What a commit has written and not yet committed is nobody's orphan: here the grace counts.
    maintainer = lake.maintainer(policy=replace(POLICY, orphans=OrphanPolicy()))
    merged = 0
    while not committer.done():
        report = (await maintainer.round())["orders"]
        merged += report.done.get("files merged", 0)
    await committer
    # A merge may lose against the committer and is then made in a later round.
    report = (await maintainer.round())["orders"]
    assert merged + report.done.get("files merged", 0) >= 16
    assert not report.failed
    expected = [(partition, n) for partition in (0, 1) for n in range(26)]
    assert in_delta(orders.log) == in_iceberg(orders.table) == expected
