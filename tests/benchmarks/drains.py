"""Who moves a backlog into a table, each in a process with a Spark of its own.

    python -m tests.benchmarks.drains ours|iceberg|delta FOLDER BOOTSTRAP

A process says `ready`, then drains the topic that each line of its standard input names and says
how long that took. All have the same session: local[2], the same jars; the peers' rows pass through
the JVM, so theirs has Java's own settings. `iceberg` and `delta` are what a user writes today:
Spark's `kafka` source, the columns as they come, into the table.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
from pyspark.sql import DataFrame, SparkSession

from lakestream_spark.cli.jobs import compact_job
from lakestream_spark.spark.compact import drain
from lakestream_spark.spark.session import LOG_OPTION, local_session
from tests.support.embedded import catalog_spec, lake_settings
from tests.support.kafka_jars import spark_connector_jars

OURS: Final = "ours"
ICEBERG: Final = "iceberg"
DELTA: Final = "delta"
PEERS: Final = {ICEBERG: "Kafka, Spark, Iceberg", DELTA: "Kafka, Spark, Delta"}
_COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "key", "value")

Result = dict[str, Any]


class Drainer:
    """A process that is ready, and what it costs."""

    def __init__(self, kind: str, folder: Path, bootstrap: str) -> None:
        jars = ":".join(map(str, spark_connector_jars()))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.drains", kind, str(folder), bootstrap],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYSPARK_SUBMIT_ARGS": f"--driver-class-path {jars} pyspark-shell"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process = psutil.Process(self._process.pid)

    def wait_until_ready(self) -> None:
        while (said := self._line()) != "ready":
            assert said, "a drainer ended before it was ready; what it said is above"

    def drain(self, topic: str) -> Result:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{topic}\n")
        self._process.stdin.flush()
        said = self._line()
        assert said, "a drainer ended before it was done; what it said is above"
        return dict(json.loads(said))

    def end(self) -> None:
        for each in [*self.process.children(recursive=True), self.process]:
            each.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def drainer(kind: str, folder: Path, bootstrap: str = "") -> Iterator[Drainer]:
    folder.mkdir(exist_ok=True)
    started = Drainer(kind, folder, bootstrap)
    try:
        started.wait_until_ready()
        yield started
    finally:
        started.end()


def ours(spark: SparkSession, folder: Path, _: str, topic: str) -> Result:
    job = compact_job(
        lake_settings(folder), checkpoint=folder / "checkpoints" / topic, topics=topic
    )
    began = time.monotonic()
    done = drain(lambda: spark, job)
    wall_s = time.monotonic() - began
    return {"wall_s": wall_s, "records": done.rows, "bytes": done.bytes, "files": done.files}


def iceberg(spark: SparkSession, folder: Path, bootstrap: str, topic: str) -> Result:
    """Into a new table each time."""
    table = f"lake.peer.t{time.time_ns()}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.peer")
    spark.sql(
        f"CREATE TABLE {table} (`partition` int, `offset` bigint, `timestamp` timestamp, "
        "timestampType int, key binary, value binary) USING iceberg"
    )
    found = _streamed(spark, bootstrap, topic, lambda data: data.format("iceberg").toTable(table))
    files = spark.sql(f"SELECT file_size_in_bytes FROM {table}.files").collect()
    return {**found, "bytes": sum(row[0] for row in files), "files": len(files)}


def delta(spark: SparkSession, folder: Path, bootstrap: str, topic: str) -> Result:
    path = folder / f"delta-{time.time_ns()}"
    found = _streamed(
        spark, bootstrap, topic, lambda data: data.format("delta").start(path.as_posix())
    )
    sizes = [file.stat().st_size for file in path.glob("*.parquet")]
    return {**found, "bytes": sum(sizes), "files": len(sizes)}


def _streamed(
    spark: SparkSession, bootstrap: str, topic: str, start: Callable[[Any], Any]
) -> Result:
    began = time.monotonic()
    stream: DataFrame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(*_COLUMNS)
    )
    query = start(stream.writeStream.outputMode("append").trigger(availableNow=True))
    query.awaitTermination()
    wall_s = time.monotonic() - began
    return {"wall_s": wall_s, "records": sum(each.numInputRows for each in query.recentProgress)}


KINDS: Final = {OURS: ours, ICEBERG: iceberg, DELTA: delta}


def main() -> None:
    kind, place, bootstrap = sys.argv[1:]
    folder = Path(place)
    more = {} if kind == OURS else {"spark.driver.extraJavaOptions": LOG_OPTION}
    spark = local_session(catalog_spec(folder), more=more)
    # Places of checkpoints that nobody names: the peers' queries.
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(folder / "checkpoints"))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(KINDS[kind](spark, folder, bootstrap, line.strip())), flush=True)


if __name__ == "__main__":
    main()
