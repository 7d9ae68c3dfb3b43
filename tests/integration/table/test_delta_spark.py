"""One Parquet set under both formats, with Spark as reader, merger and deleter.

One test for many facts: starting Spark costs more than all of them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakestream_spark.spark.merge import SparkRewriter
from lakestream_spark.table import delta_log
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.delta import Outcome, mirror
from lakestream_spark.table.delta_changes import files_with_deletes, live_files
from tests.support.delta_tables import (
    GrowingTable,
    Offsets,
    files_below,
    in_delta,
    in_duckdb,
    in_iceberg,
)
from tests.support.embedded import catalog_spec
from tests.support.frugal_spark import frugal
from tests.support.spark import ignore_sockets_of_spark, spark_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    ignore_sockets_of_spark,
]


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[GrowingTable]:
    growing = GrowingTable.new(catalog_spec(tmp_path))
    yield growing
    growing.close()


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    with spark_session(catalog_spec(tmp_path)) as session:
        frugal(session)
        yield session


class Lake:
    """The table through every reader."""

    def __init__(self, spark: SparkSession, orders: GrowingTable) -> None:
        self.spark = spark
        self.orders = orders
        self.rewriter = SparkRewriter(lambda: spark, orders.spec.name)
        self.identifier = orders.layout.identifier
        self.root = Path(delta_log.uri(orders.table))

    def mirror_and_read(self) -> Offsets:
        """What both formats hold, by every reader."""
        assert mirror(self.orders.table, self.orders.topic_id).outcome is not Outcome.HAS_DELETES
        # Spark remembers a table's metadata for a while.
        self.sql("REFRESH TABLE lake.streams.orders")
        found = {
            "pyiceberg": in_iceberg(self.orders.table),
            "delta-rs": in_delta(self.orders.log),
            "DuckDB": in_duckdb(self.orders.log),
            "Spark, Delta": self.by_spark(self.spark.read.format("delta").load(str(self.root))),
            "Spark, Iceberg": self.by_spark(self.spark.table("lake.streams.orders")),
        }
        assert found == dict.fromkeys(found, found["pyiceberg"])
        return found["pyiceberg"]

    def by_spark(self, frame) -> Offsets:
        return sorted(tuple(row) for row in frame.select(PARTITION, OFFSET).collect())

    def sql(self, text: str) -> None:
        self.spark.sql(text).collect()


def test_merges_deletes_and_vacuum_leave_both_formats_equal(orders, spark):
    for _ in range(4):
        orders.append(0, 1, values=[b"a", b"b", b"c"])
    lake = Lake(spark, orders)
    expected = [(partition, offset) for partition in (0, 1) for offset in range(12)]
    assert lake.mirror_and_read() == expected

    merge_leaves_few_files_in_offset_order(lake)
    assert lake.mirror_and_read() == expected

    orders.append(0)
    expected += [(0, 12), (0, 13)]
    assert lake.mirror_and_read() == sorted(expected)

    deletes_of_a_foreign_engine_are_settled_first(lake)
    expected = [pair for pair in sorted(expected) if pair not in ((0, 5), (1, 7))]
    assert lake.mirror_and_read() == expected

    vacuum_takes_nothing(lake)
    assert lake.mirror_and_read() == expected
    foreign_expiry_is_refused(lake)

    delta_changed_by_spark_is_repaired(lake)
    assert lake.mirror_and_read() == expected

    orders.append(1)
    assert lake.rewriter.gather_manifests(lake.identifier) > 1
    assert lake.mirror_and_read() == [*expected, (1, 12), (1, 13)]


def merge_leaves_few_files_in_offset_order(lake: Lake) -> None:
    where = f"{PARTITION} = 0 AND {OFFSET} < 9"
    done = lake.rewriter.merge(lake.identifier, target_bytes=2**28, where=where, most_bytes=2**28)
    assert (done.files_before, done.files_after) == (3, 1)
    snapshot = lake.orders.table.current_snapshot()
    assert snapshot is not None
    files = live_files(lake.orders.table, snapshot).values()
    assert {file.offsets for file in files if file.partition == 0} == {(0, 8), (9, 11)}
    assert all(file.path.startswith("_data/") for file in files)
    merged = next(file for file in files if file.offsets == (0, 8))
    frame = lake.spark.read.parquet(str(lake.root / merged.path)).select(OFFSET)
    assert [row[0] for row in frame.collect()] == list(range(9))


def deletes_of_a_foreign_engine_are_settled_first(lake: Lake) -> None:
    lake.sql(
        "ALTER TABLE lake.streams.orders SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    lake.sql(f"DELETE FROM lake.streams.orders WHERE {PARTITION} = 0 AND {OFFSET} = 5")
    lake.sql(f"DELETE FROM lake.streams.orders WHERE {PARTITION} = 1 AND {OFFSET} = 7")
    orders = lake.orders
    version = orders.log.version()
    assert mirror(orders.table, orders.topic_id).outcome is Outcome.HAS_DELETES
    assert orders.log.version() == version
    settled = lake.rewriter.settle_deletes(lake.identifier)
    assert settled.files_before == 2
    snapshot = orders.table.current_snapshot()
    assert snapshot is not None
    assert not files_with_deletes(orders.table, snapshot)


def vacuum_takes_nothing(lake: Lake) -> None:
    before = files_below(lake.root / "_data") | files_below(lake.root / "_iceberg")
    lake.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    # Else VACUUM lists the few folders with 10,000 tasks.
    lake.spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
    for kind in ("LITE", ""):
        lake.sql(f"VACUUM delta.`{lake.root}` {kind} RETAIN 0 HOURS")
    lake.orders.log.vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
    )
    assert before <= files_below(lake.root)


def foreign_expiry_is_refused(lake: Lake) -> None:
    call = "CALL lake.system.expire_snapshots(table => 'streams.orders', retain_last => 1)"
    with pytest.raises(Exception, match="GC is disabled"):
        lake.sql(call)


def delta_changed_by_spark_is_repaired(lake: Lake) -> None:
    location = f"delta.`{lake.root}`"
    with pytest.raises(Exception, match="append"):
        lake.sql(f"DELETE FROM {location} WHERE {PARTITION} = 0")
    lake.sql(f"ALTER TABLE {location} SET TBLPROPERTIES ('delta.appendOnly'='false')")
    lake.sql(f"DELETE FROM {location} WHERE {PARTITION} = 0")
    assert in_delta(lake.orders.log) != in_iceberg(lake.orders.table)
