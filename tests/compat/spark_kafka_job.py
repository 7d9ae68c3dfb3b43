"""What Spark's own `kafka` sink and source do with topics: written, and read as batch and stream.

    python -m tests.compat.spark_kafka_job JARS SPEC FOLDER

The spec is JSON: `bootstrap`, the `topic` that is written, the topic with `holes`, and the `starts`
from which that one is read, with `failOnDataLoss`. A program of its own, because the jars of a
session are those of its process.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.support.readme import python_blocks

RECORDS = 200
OFFSETS_PER_BATCH: Final = 80
"""Of a stream over holes: its batches begin and end inside of them."""


def main(jars: str, spec: str, folder: str) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    given = json.loads(spec)
    seen = {
        "written": written(session, given["bootstrap"], given["topic"], folder),
        "holes": [
            over_holes(session, given, start, f"{folder}/holes-{number}")
            for number, start in enumerate(given["starts"])
        ],
    }
    Path(folder, "seen.json").write_text(json.dumps(seen), encoding="utf-8")
    session.stop()


def written(session: SparkSession, bootstrap: str, topic: str, folder: str) -> dict[str, Any]:
    """By the README's own words, and read back."""
    rows = session.range(RECORDS).select(
        f.col("id").cast("string").alias("key"),
        f.concat(f.lit("value-"), f.col("id")).alias("value"),
        f.array(f.struct(f.lit("h").alias("key"), f.lit(b"1").alias("value"))).alias("headers"),
    )
    (write,) = python_blocks("Write from Spark")
    write = write.replace("127.0.0.1:9092", bootstrap).replace('"orders"', repr(topic))
    exec(write.replace('"key", "value"', '"key", "value", "headers"'), {"rows": rows})
    source = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    batch = session.read.format("kafka").options(**source).load()
    stream = session.readStream.format("kafka").options(**source).load()
    (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/out")
        .awaitTermination()
    )
    streamed = session.read.parquet(f"{folder}/out")
    return {"batch": summary(batch), "stream": summary(streamed)}


def summary(records: DataFrame) -> dict[str, int]:
    """What must not be lost on the way, as numbers."""
    row = records.agg(
        f.count("*").alias("records"),
        f.count_distinct(f.col("value")).alias("values"),
        f.count_distinct(f.struct("partition", "offset")).alias("places"),
        f.sum(f.when(f.expr("headers[0].key = 'h'"), 1).otherwise(0)).alias("headers"),
    ).first()
    assert row is not None
    return {name: int(value) for name, value in row.asDict().items()}


def over_holes(session: SparkSession, given: Any, start: str, folder: str) -> dict[str, Any]:
    """The places that a batch and a stream give from a start on."""
    source = {
        "kafka.bootstrap.servers": given["bootstrap"],
        "kafka.isolation.level": "read_committed",
        "subscribe": given["holes"],
        "startingOffsets": start,
        "failOnDataLoss": "true",
    }
    batch = session.read.format("kafka").options(**source).load()
    stream = session.readStream.format("kafka").options(
        **source, maxOffsetsPerTrigger=OFFSETS_PER_BATCH
    )
    query = (
        stream.load()
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/out")
    )
    query.awaitTermination()
    streamed = session.read.parquet(f"{folder}/out")
    return {
        "batch": places(batch),
        "stream": sorted(places(streamed)),
        "batches": len(query.recentProgress),
    }


def places(records: DataFrame) -> list[list[int]]:
    """In order within a partition, with whatever came twice."""
    return [list(row) for row in records.select("partition", "offset").collect()]


if __name__ == "__main__":
    main(*sys.argv[1:])
