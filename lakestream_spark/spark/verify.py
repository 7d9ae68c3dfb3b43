"""The full comparison as a Spark job: rows counted and summed by cell, without Python in the way.

What always holds: the hash of a row is the one that the compaction's tasks computed, in Spark's own
words; Iceberg is read at the pinned snapshot, and Delta at the version that mirrors it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.metadata.cells import CELL_BITS
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.table import delta_log
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.expected import ExpectedCell
from lakestream_spark.verify.check import CheckAll
from lakestream_spark.verify.pinned import Pinned

ROW_HASH: Final = """xxhash64(
    __offset,
    __timestamp,
    bigint(isnull(__key)) + 2 * bigint(isnull(__value)) + 4 * bigint(isnull(__record))
        + 8 * coalesce(__timestamp_type, 2) + 32 * coalesce(size(__headers), 0),
    __key,
    transform(__headers, h -> struct(h.key, isnull(h.value), h.value)),
    __value,
    __record
)"""
"""`kafka.arrow.row_hash` says what it is made of."""


def check_with(session: Callable[[], SparkSession], catalog: str) -> CheckAll:
    """The comparison of all cells by this Spark."""

    def check(pinned: Pinned) -> Sequence[ExpectedCell]:
        table, snapshot = pinned.table, pinned.snapshot
        if table is None or snapshot is None:
            return []
        spark = session()
        differing = _differing(_iceberg(spark, catalog, table, snapshot), pinned)
        delta = None if differing else _delta(spark, pinned, table, snapshot)
        for cell in () if delta is None else _differing(delta, pinned):
            raise Corrupt(
                "Delta gives other rows than Iceberg",
                partition=cell.partition,
                offsets=f"[{cell.first}, {cell.next})",
                remedy=f"remove the folder _delta_log below {table.location()}, it is made anew",
            )
        return differing

    return check


def _iceberg(spark: SparkSession, catalog: str, table: Table, snapshot: Snapshot) -> DataFrame:
    name = ".".join(f"`{part}`" for part in (catalog, *table.name()))
    # Spark remembers a table's metadata for a while; others have committed since.
    spark.sql(f"REFRESH TABLE {name}").collect()
    return spark.sql(f"SELECT * FROM {name} VERSION AS OF {snapshot.snapshot_id}")


def _delta(
    spark: SparkSession, pinned: Pinned, table: Table, snapshot: Snapshot
) -> DataFrame | None:
    """None when there is no Delta, or it mirrors another snapshot."""
    if "delta" not in TopicConfig.of(pinned.topic.config).table_formats:
        return None
    log = delta_log.open_log(table)
    if log is None:
        return None
    if delta_log.marks(log, pinned.topic.id).sequence_number != snapshot.sequence_number:
        return None
    root = delta_log.uri(table)
    return spark.read.format("delta").option("versionAsOf", log.version()).load(root)


def _differing(rows: DataFrame, pinned: Pinned) -> list[ExpectedCell]:
    """Cells whose number of rows or checksum is not what it should be, in order."""
    found = {
        (row[0], row[1]): (row[2], row[3])
        for row in _compared(rows, pinned)
        .groupBy(f.col(PARTITION), f.shiftright(OFFSET, CELL_BITS))
        .agg(f.count("*"), f.expr(f"bit_xor({ROW_HASH})"))
        .collect()
    }
    return [
        cell
        for cell in pinned.cells()
        if found.get((cell.partition, cell.number), (0, 0)) != (cell.rows, cell.checksum)
    ]


def _compared(rows: DataFrame, pinned: Pinned) -> DataFrame:
    """The rows that the cells cover."""
    covered = pinned.expected.covered
    conditions = [
        f"({PARTITION} = {partition} AND {OFFSET} >= {max(place.first, covered[partition].first)} "
        f"AND {OFFSET} < {place.next})"
        for partition, place in pinned.places().items()
        if partition in covered
    ]
    return rows.where(" OR ".join(conditions) or "false")
