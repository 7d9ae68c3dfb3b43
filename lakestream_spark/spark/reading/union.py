"""One DataFrame of table and WAL tail, as of one moment: see `moment`.

The table half is read by Spark's own Iceberg reader, pinned to the moment's snapshot; the tail half
by our tasks.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.catalogs import catalog_conf
from lakestream_spark.spark.reading.columns import Shape, schema, table_shape
from lakestream_spark.spark.reading.installation import Installation, Opened
from lakestream_spark.spark.reading.moment import now
from lakestream_spark.spark.reading.pieces import Piece
from lakestream_spark.spark.reading.rows import RowReader
from lakestream_spark.spark.remote import refuse_remote_sqlite
from lakestream_spark.table.spec import CatalogSpec

_NO_ICEBERG: Final = (
    "this Spark session has no Iceberg: start it with Iceberg's Spark runtime among spark.jars, "
    "or let lakestream_spark.session start one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailTask:
    """The function that Spark maps over the numbers of tasks."""

    reader: RowReader
    tasks: tuple[tuple[Piece, ...], ...]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.reader.read(self.tasks[number])


def union(
    spark: SparkSession,
    installation: Installation,
    topic: str,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Table and tail of the topic, with everything that is acknowledged by now."""
    shape = table_shape(columns)
    refuse_remote_sqlite(spark, installation.metadata_url)
    with closing(Opened(installation)) as opened:
        moment = now(opened, topic)
    table = None
    if moment.table is not None and moment.table.metadata.current_snapshot_id is not None:
        table = _table_half(spark, installation.catalog, moment.table)
        table = table if columns is None else table.select(*columns)
    if table is not None and not moment.tail:
        return table
    tail = _tail_half(spark, installation, moment.tail, shape)
    if table is None:
        return tail
    # The tail first: its few tasks run beside those of the table, not alone after them. Columns
    # that others added to the table have no values in it.
    return tail.unionByName(table, allowMissingColumns=True).select(*_named(table))


def _named(frame: DataFrame) -> list[str]:
    """Its columns, as names that mean themselves."""
    return [f"`{column.replace('`', '``')}`" for column in frame.columns]


def _table_half(spark: SparkSession, catalog: CatalogSpec, table: Table) -> DataFrame:
    prefix = f"spark.sql.catalog.{catalog.name}"
    if spark.conf.get(prefix, None) is None:
        for key, value in catalog_conf(catalog).items():
            spark.conf.set(key, value)
    name = ".".join(f"`{part}`" for part in (catalog.name, *table.name()))
    try:
        # Spark remembers tables for a while, and the snapshot may be newer.
        spark.catalog.refreshTable(name)
    except Exception as error:
        if "org.apache.iceberg" in str(error) and "lugin" in str(error):
            raise Misconfigured(_NO_ICEBERG) from None
        raise
    return spark.sql(f"SELECT * FROM {name} VERSION AS OF {table.metadata.current_snapshot_id}")


def _tail_half(
    spark: SparkSession,
    installation: Installation,
    tasks: tuple[tuple[Piece, ...], ...],
    shape: Shape,
) -> DataFrame:
    task = TailTask(reader=RowReader(installation=installation, shape=shape), tasks=tasks)
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(task, schema(shape))  # type: ignore[arg-type]
