"""Table and tail as one DataFrame against the table alone, scanning one column while records come.

Both are asked for the same aggregate of one column in the same Spark (local[2]), in turns and after
a round that is not counted. The time of `lakestream_spark.read` itself is in its turns. The tail
is what no commit has taken yet: it lies in the WAL, and grows while it is read. Spark prunes no
columns of the tail, so it is read with all of them as well as with the one that is scanned.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import lakestream_spark
from lakestream_spark.cli.jobs import compact_job
from lakestream_spark.spark.compact import drain
from tests.benchmarks.events import client, create, result
from tests.benchmarks.harness import Aim, Options, Report, in_turns, progress, run
from tests.benchmarks.servers import scratch
from tests.support.embedded import lake_settings
from tests.support.ingress_process import ingress

TOPIC: Final = "events"
PARTITIONS: Final = 4
TABLE: Final = "table alone"
UNION: Final = "table and tail"
CHOSEN: Final = "the same, column named"
COLUMNS: Final = {"__offset": "sum(__offset)", "__value": "sum(length(__value))"}


class Load(NamedTuple):
    """Rows of the table, records of the tail, what comes meanwhile, and how often is measured."""

    rows: int
    tail: int
    bytes_per_s: int
    rounds: int


class Turn(NamedTuple):
    """One scan: seconds, and the rows it saw."""

    wall_s: float
    rows: int


def fill(bootstrap: str, count: int) -> None:
    spec = {"role": "fill", "bootstrap": bootstrap, "topic": TOPIC, "partitions": PARTITIONS}
    result(client(**spec, count=count))


@contextmanager
def flowing(bootstrap: str, bytes_per_s: int) -> Iterator[None]:
    """Records come until the block ends."""
    spec = {"role": "flow", "bootstrap": bootstrap, "topics": [TOPIC], "partitions": PARTITIONS}
    started = client(**spec, bytes_per_s=bytes_per_s, seconds=3600)
    try:
        yield
    finally:
        started.kill()
        started.communicate()


def scan(frame: Callable[[], DataFrame], column: str) -> Callable[[int], Awaitable[Turn]]:
    async def take(_: int) -> Turn:
        began = time.monotonic()
        row = frame().agg(f.expr(COLUMNS[column]), f.count(column)).first()
        assert row is not None
        return Turn(time.monotonic() - began, row[1])

    return take


async def measure_column(
    report: Report, spark: SparkSession, folder: Path, column: str, rounds: int
) -> None:
    contenders: dict[str, Callable[[], DataFrame]] = {
        TABLE: lambda: spark.table(f"lake.streams.{TOPIC}"),
        UNION: lambda: lakestream_spark.read(spark, TOPIC, data=str(folder)),
        CHOSEN: lambda: lakestream_spark.read(spark, TOPIC, columns=[column], data=str(folder)),
    }
    takes = {name: scan(frame, column) for name, frame in contenders.items()}
    await in_turns(1, takes)
    turns = await in_turns(rounds, takes)
    for name, own in turns.items():
        walls = sorted(each.wall_s for each in own)
        report.add(
            who=name,
            column=column,
            seconds=statistics.median(walls),
            spread=f"{walls[0]:.2f}–{walls[-1]:.2f}",
            rows=own[-1].rows,
        )
    for name in (UNION, CHOSEN):
        pairs = zip(turns[name], turns[TABLE], strict=True)
        more = statistics.median(own.wall_s - table.wall_s for own, table in pairs)
        report.aims.append(Aim.at_most(f"{name} after the table alone, {column}", 1, more, "s"))


async def measure(report: Report, options: Options) -> None:
    load = (
        Load(50_000, 5_000, 100_000, 1) if options.quick else Load(10_000_000, 200_000, 200_000, 5)
    )
    with scratch() as folder, ingress(folder) as broker:
        (listening,) = broker.ready()
        create(listening.kafka, [TOPIC], PARTITIONS)
        progress(f"filling {load.rows} rows")
        fill(listening.kafka, load.rows)
        spark = lakestream_spark.session(data=str(folder))
        drain(lambda: spark, compact_job(lake_settings(folder), checkpoint=folder / "checkpoint"))
        fill(listening.kafka, load.tail)
        try:
            with flowing(listening.kafka, load.bytes_per_s):
                for column in COLUMNS:
                    await measure_column(report, spark, folder, column, load.rounds)
        finally:
            spark.stop()


if __name__ == "__main__":
    run("union_read", measure)
