"""The silver table and the quarantine, and how a batch gets into them once.

What always holds: a row is inserted only where its partition and offset are not in the table yet,
in one atomic commit, so a batch that is repeated (after a crash between the two tables, or with a
lost checkpoint) adds nothing twice and completes what is missing. One pipeline writes to a table at
a time: inserts of two do not see each other.
"""

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakestream_spark.spark.silver.orders import FIELDS, RECORD

_LAST: Final = re.compile(r"\.(`(?:[^`]|``)+`|[^.`]+)$")
ORIGIN: Final = ("__partition", "__offset", "__timestamp")
SILVER: Final = {**FIELDS, **{name: RECORD[name] for name in ORIGIN}}
QUARANTINE: Final = {
    "reason": "string",
    "expectation": "string",
    "judged_at": "timestamp",
    **RECORD,
}


def identifier(*names: str) -> str:
    """A name as Spark's SQL takes it, whatever is in its parts: catalog, namespace, table."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def namespace_of(table: str) -> str:
    """All of a table's name but its last part, in which a dot may be quoted."""
    found = _LAST.search(table)
    return table[: found.start()] if found else ""


def create(spark: SparkSession, table: str, columns: Mapping[str, str], *, days: str) -> None:
    """The table, in files of one day by the column `days`, unless it is there."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace_of(table)}")
    listed = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table} ({listed}) USING iceberg PARTITIONED BY (days({days}))"
    )


def insert_new(rows: DataFrame, table: str, lowest_offset: int) -> None:
    """Those rows that are not in the table yet; `lowest_offset` lets Spark skip older files."""
    same = (
        (F.col("t.__partition") == F.col("s.__partition"))
        & (F.col("t.__offset") == F.col("s.__offset"))
        & (F.col("t.__offset") >= lowest_offset)
    )
    there = newest(rows.sparkSession, table).alias("t")
    rows.alias("s").join(there, same, "left_anti").writeTo(table).append()


def newest(spark: SparkSession, table: str) -> DataFrame:
    """The table as it is now: Spark remembers what it saw of it for a while."""
    spark.sql(f"REFRESH TABLE {table}")
    return spark.table(table)
