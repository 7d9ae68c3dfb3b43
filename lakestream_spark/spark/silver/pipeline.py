"""From the stream of orders into the silver table, and what is not good enough into the quarantine.

    stream ─► typed ─► rules ─► good ─► not seen before ─► silver
                            └─► bad ──── and repeats ────► quarantine, with reason and whole record

What always holds: every record of the topic ends in exactly one of the two tables, once, whatever
is killed and repeated, as long as the rules stay the same: a verdict depends on the record and on
earlier records only, and both tables know the offsets they have. Between the two commits of a batch
silver has its rows and the quarantine does not.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Self, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lakestream_spark.core.logs import event
from lakestream_spark.spark.silver.gate import FAILURE, PLACE, Failure, Gate
from lakestream_spark.spark.silver.orders import typed
from lakestream_spark.spark.silver.tables import (
    QUARANTINE,
    SILVER,
    create,
    identifier,
    insert_new,
    newest,
)
from lakestream_spark.table.layout import table_name

_log: Final = logging.getLogger(__name__)
REPEATED: Final = "the order came before"
_UNIQUE: Final = "unique(order_id)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SilverJob:
    """Where the orders come from, and where they go."""

    topic: str
    silver: str
    quarantine: str
    checkpoint: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """Of the stream: `data`, `conf`, `maxOffsetsPerTrigger`."""

    @classmethod
    def of(
        cls, catalog: str, namespace: str, topic: str, checkpoint: str, options: dict[str, str]
    ) -> Self:
        """Into tables that are called like the topic's own one."""
        place, name = (catalog, *namespace.split(".")), table_name(topic)
        return cls(
            topic=topic,
            silver=identifier(*place, name),
            quarantine=identifier(*place, f"{name}_quarantine"),
            checkpoint=checkpoint,
            options=options,
        )


Judge: TypeAlias = Callable[[DataFrame], list[Failure]]
"""Says which rows are not good enough, and why."""


class SilverBatch:
    """What is done with each batch; Spark may call it again with the same one."""

    def __init__(self, spark: SparkSession, job: SilverJob, judge: Judge | None = None) -> None:
        self._job = job
        self._judge = judge or Gate().failures
        self.rows = 0
        create(spark, job.silver, SILVER, days="placed_at")
        create(spark, job.quarantine, QUARANTINE, days="judged_at")

    def __call__(self, bronze: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        rows = typed(bronze).persist()
        try:
            about = _about(rows)
            if about.rows == 0:
                return
            bad = self._judge(rows)
            bad += self._repeats(_without(rows, bad), about)
            verdicts = rows.sparkSession.createDataFrame(bad, FAILURE)
            insert_new(_without(rows, bad).select(*SILVER), self._job.silver, about.lowest_offset)
            refused = rows.join(F.broadcast(verdicts), [*PLACE])
            refused = refused.withColumn("judged_at", F.current_timestamp()).select(*QUARANTINE)
            insert_new(refused, self._job.quarantine, about.lowest_offset)
        finally:
            rows.unpersist()
        self.rows += about.rows
        facts = {"batch": batch_id, "good": about.rows - len(bad), "bad": len(bad)}
        seconds = round(time.monotonic() - began, 2)
        event(_log, logging.INFO, "a batch was judged", **facts, seconds=seconds)

    def _repeats(self, good: DataFrame, about: "_About") -> list[Failure]:
        """Good orders that came before, in this batch or in silver.

        Orders have their customer as key, so copies of one are in one partition, in order. A copy
        has the day of its original: Spark opens no other days of silver.
        """
        if about.first_day is None or about.last_day is None:
            return []
        days = F.col("placed_at").between(about.first_day, about.last_day)
        silver = newest(good.sparkSession, self._job.silver).where(days)
        same = ("order_id", "__partition")
        both = good.select(*same, "__offset").union(silver.select(*same, "__offset"))
        first = both.groupBy(*same).agg(F.min("__offset").alias("first"))
        again = good.join(first, [*same]).where("__offset > first").select(*PLACE)
        return [Failure(row[0], row[1], REPEATED, _UNIQUE) for row in again.collect()]


class _About(NamedTuple):
    """What is known of a batch before anything is judged."""

    rows: int
    lowest_offset: int
    first_day: datetime | None
    last_day: datetime | None


def _about(rows: DataFrame) -> _About:
    found = rows.agg(
        F.count("*"), F.min("__offset"), F.min("placed_at"), F.max("placed_at")
    ).collect()
    return _About(*found[0])


def _without(rows: DataFrame, bad: list[Failure]) -> DataFrame:
    """The other rows; the bad ones are few, and known by their places."""
    if not bad:
        return rows
    places = rows.sparkSession.createDataFrame([each[:2] for each in bad], "p int, o bigint")
    same = (F.col("__partition") == F.col("p")) & (F.col("__offset") == F.col("o"))
    return rows.join(F.broadcast(places), same, "left_anti")


def stream(spark: SparkSession, job: SilverJob, batch: SilverBatch) -> DataStreamWriter:
    """From the topic's beginning, or from where the checkpoint ended."""
    return (
        spark.readStream.format("lakestream")
        .options(subscribe=job.topic, startingOffsets="earliest", **job.options)
        .load()
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", job.checkpoint)
    )


def drain(spark: SparkSession, job: SilverJob, batch: SilverBatch) -> int:
    """Everything that is acknowledged by now; the number of records."""
    while True:
        before = batch.rows
        # Spark 4.1 makes one batch of a stream with availableNow, and may leave something.
        stream(spark, job, batch).trigger(availableNow=True).start().awaitTermination()
        if batch.rows == before:
            return batch.rows


def run(
    spark: SparkSession,
    job: SilverJob,
    batch: SilverBatch,
    *,
    every_s: float,
    stopped: Callable[[], bool],
) -> int:
    """Batch after batch until it is told to stop; the number of records."""
    timed = stream(spark, job, batch).trigger(processingTime=f"{every_s} seconds")
    query: StreamingQuery = timed.start()
    try:
        while not stopped() and not query.awaitTermination(1):
            pass
    finally:
        # At any moment: a batch that is cut off is repeated, and adds nothing twice.
        query.stop()
    return batch.rows
