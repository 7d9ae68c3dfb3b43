"""A batch of orders into silver and quarantine, with Great Expectations and without.

Both do the same but for the judgement: JSON into columns, repeats looked for in silver, two tables
written. The records are made beforehand by the same Spark (local[2]); a batch has its own offsets
and orders, so that both find tables of the same size. One batch of each is not counted.
"""

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import lakestream_spark
from lakestream_spark.spark.silver.gate import Gate
from lakestream_spark.spark.silver.pipeline import Judge, SilverBatch, SilverJob
from tests.benchmarks.harness import Options, Report, in_turns, run
from tests.benchmarks.servers import scratch

WITH: Final = "with Great Expectations"
WITHOUT: Final = "without"
_ORDER: Final = (
    "to_json(named_struct('order_id', concat('o-', id), 'customer_id', concat('c-', id % 500), "
    "'status', if(id % 1000 < {bad}, 'lost', 'placed'), 'city', 'Berlin', 'country', 'DE', "
    "'currency', 'EUR', 'total', 18.9 + id % 100, "
    "'items', array(named_struct('name', 'desk lamp', 'count', 1, 'price', 18.9)), "
    "'placed_at', '2026-03-01T12:00:00.000+00:00'))"
)


def orders(spark: SparkSession, first: int, count: int, bad_per_mille: int) -> DataFrame:
    """Records as the stream gives them, in memory."""
    value = _ORDER.format(bad=bad_per_mille)
    rows = spark.range(first, first + count).selectExpr(
        "0 AS __partition",
        "id AS __offset",
        "current_timestamp() AS __timestamp",
        "0 AS __timestamp_type",
        "CAST(concat('c-', id % 500) AS BINARY) AS __key",
        "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS __headers",
        f"CAST({value} AS BINARY) AS __value",
        "CAST(NULL AS BINARY) AS __record",
    )
    made = rows.persist()
    assert made.agg(f.count("*")).collect()[0][0] == count
    return made


def taker(
    spark: SparkSession, name: str, judge: Judge, count: int, bad: int
) -> Callable[[int], Awaitable[float]]:
    """Judges and writes one more batch; gives its seconds."""
    table = f"lake.bench.t{name}_{count}_{bad}"
    job = SilverJob(topic="", silver=table, quarantine=f"{table}_q", checkpoint="")
    batch = SilverBatch(spark, job, judge)
    taken = 0

    async def take(_: int) -> float:
        nonlocal taken
        rows = orders(spark, taken * count, count, bad)
        began = time.monotonic()
        batch(rows, taken)
        seconds = time.monotonic() - began
        taken += 1
        rows.unpersist()
        return seconds

    return take


async def measure_size(
    report: Report, spark: SparkSession, count: int, bad: int, rounds: int
) -> None:
    judges: dict[str, Judge] = {WITH: Gate().failures, WITHOUT: lambda _: []}
    takes = {
        name: taker(spark, str(number), judge, count, bad)
        for number, (name, judge) in enumerate(judges.items())
    }
    await in_turns(1, takes)
    turns = await in_turns(rounds, takes)
    more = [own - plain for own, plain in zip(turns[WITH], turns[WITHOUT], strict=True)]
    for name, walls in turns.items():
        report.add(
            who=name,
            records=count,
            bad_percent=bad / 10,
            seconds=statistics.median(walls),
            spread=f"{min(walls):.2f}–{max(walls):.2f}",
            judgement_s=statistics.median(more) if name == WITH else 0.0,
        )


async def measure(report: Report, options: Options) -> None:
    sizes = [(1_000, 10)] if options.quick else [(10_000, 0), (10_000, 10), (200_000, 10)]
    with scratch() as folder:
        spark = lakestream_spark.session(
            data=str(folder), more={"spark.sql.shuffle.partitions": "4"}
        )
        try:
            for count, bad in sizes:
                await measure_size(report, spark, count, bad, 1 if options.quick else 5)
        finally:
            spark.stop()


if __name__ == "__main__":
    run("silver", measure)
