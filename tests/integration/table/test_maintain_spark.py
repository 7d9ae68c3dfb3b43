"""Maintenance with a real Spark beside a committer that appends all the time.

One test for many facts: starting Spark costs more than all of them.
"""

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Transient
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.maintain import MaintainJob, maintain_once
from lakestream_spark.spark.pools import UPKEEP
from lakestream_spark.table import delta_log
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.delta import mirror
from lakestream_spark.table.delta_changes import live_files
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.places import canonical
from lakestream_spark.table.upkeep.policy import MergePolicy, SnapshotPolicy, UpkeepPolicy
from tests.support.delta_tables import GrowingTable, in_delta, in_duckdb, in_iceberg
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.frugal_spark import frugal
from tests.support.spark import ignore_sockets_of_spark, spark_session
from tests.support.syncs import note_syncs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200), ignore_sockets_of_spark]

POLICY = UpkeepPolicy(
    merge=MergePolicy(min_files=4),
    snapshots=SnapshotPolicy(newest=10),
    max_manifests=4,
    checkpoint_after=2,
    seldom_ms=0,
)
FIRST = 6


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    with spark_session(catalog_spec(tmp_path)) as session:
        frugal(session)
        yield session


async def topic_of(folder: Path) -> Topic:
    metadata = await open_metadata(metadata_url(folder), clock=SystemClock())
    try:
        config = {"lakestream.table.formats": "iceberg,delta"}
        return await metadata.topics.create("orders", partitions=2, config=config)
    finally:
        await metadata.close()


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[GrowingTable]:
    topic = asyncio.run(topic_of(tmp_path))
    catalog = StreamCatalog.open(catalog_spec(tmp_path))
    layout = catalog.layout(topic.id, topic.name)
    yield GrowingTable(spec=catalog_spec(tmp_path), catalog=catalog, layout=layout)
    catalog.close()


class Committer:
    """Appends to both partitions about every 200 ms, from a thread of its own."""

    def __init__(self, orders: GrowingTable) -> None:
        self._orders = orders
        self._stop = Event()
        self._thread = Thread(target=self._run, name="committer")
        self.commits = 0
        self.longest_s = 0.0

    def __enter__(self) -> "Committer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        while not self._stop.is_set():
            try:
                self._orders.append(0, 1)
            except Transient:
                continue
            self.commits += 1
            self.longest_s = max(self.longest_s, time.monotonic() - started)
            self._stop.wait(0.2)
            started = time.monotonic()


@pytest.mark.slow
def test_maintenance_never_fights_the_committer(orders, spark, tmp_path, monkeypatch):
    synced = note_syncs(monkeypatch)
    for _ in range(FIRST):
        orders.append(0, 1)
    job = MaintainJob(
        metadata_url=metadata_url(tmp_path), catalog=catalog_spec(tmp_path), policy=POLICY
    )
    with Committer(orders) as committer:
        reports = [maintain_once(lambda: spark, job)["orders"]]
    assert committer.commits > 0
    print(f"{committer.commits} commits, the longest took {committer.longest_s:.1f} s")
    # A rewrite may lose against the committer; then it changed nothing and is made next time.
    reports.append(maintain_once(lambda: spark, job)["orders"])
    print(reports)
    assert not any(report.left for report in reports)
    assert not reports[-1].failed
    assert sum(report.done.get("files merged", 0) for report in reports) >= 2 * FIRST
    assert sum(report.done.get("manifests gathered", 0) for report in reports) > 0
    assert sum(report.done.get("Delta checkpoint", 0) for report in reports) > 0

    ends = 2 * (FIRST + committer.commits)
    expected = [(partition, offset) for partition in (0, 1) for offset in range(ends)]
    assert everywhere(orders, spark) == expected
    no_two_files_of_a_partition_overlap(orders)
    all_files_are_on_the_disk(orders, set(synced))
    assert len(orders.table.snapshots()) <= POLICY.snapshots.newest + 8

    assert spark_pools(spark) == {"default", UPKEEP}, "a merge leaves slots to batches"

    vacuum(orders, spark)
    orders.append(0, 1)
    mirror(orders.table, orders.topic_id)
    assert len(everywhere(orders, spark)) == len(expected) + 4


def spark_pools(spark: SparkSession) -> set[str]:
    """The scheduler's pools in which something has run."""
    found = spark.sparkContext._jsc.sc().getAllPools()
    return {found.apply(number).name() for number in range(found.size())}


def everywhere(orders: GrowingTable, spark: SparkSession) -> list[tuple[int, int]]:
    """The rows, which are the same by every reader of both formats."""
    frame = spark.read.format("delta").load(delta_log.uri(orders.table))
    by_spark = sorted((row[0], row[1]) for row in frame.select(PARTITION, OFFSET).collect())
    found = in_iceberg(orders.table)
    assert found == in_delta(orders.log) == in_duckdb(orders.log) == by_spark
    return found


def no_two_files_of_a_partition_overlap(orders: GrowingTable) -> None:
    table = orders.table
    snapshot = table.current_snapshot()
    assert snapshot is not None
    spans = sorted((f.partition, f.offsets or (0, 0)) for f in live_files(table, snapshot).values())
    for (partition, (_, last)), (following, (first, _)) in pairwise(spans):
        assert partition != following or last < first


def all_files_are_on_the_disk(orders: GrowingTable, synced: set[int]) -> None:
    """Those of Spark too, with its folders."""
    table = orders.table
    snapshot = table.current_snapshot()
    assert snapshot is not None
    root = Path(table.location().removeprefix("file://"))
    data = {root / path for path in live_files(table, snapshot)}
    paths = data | {path.parent for path in data}
    paths |= {Path(canonical(each.manifest_path)) for each in snapshot.manifests(table.io)}
    paths |= {Path(canonical(snapshot.manifest_list)), Path(canonical(table.metadata_location))}
    assert {path for path in paths if path.stat().st_ino not in synced} == set()


def vacuum(orders: GrowingTable, spark: SparkSession) -> None:
    """Both kinds, as careless as they can be."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM delta.`{delta_log.uri(orders.table)}` RETAIN 0 HOURS").collect()
    orders.log.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
