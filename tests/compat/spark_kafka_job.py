"""What Spark's own `kafka` sink and source do with a topic: written, read as batch and as stream.

    python -m tests.compat.spark_kafka_job JARS BOOTSTRAP TOPIC FOLDER

A program of its own, because the jars of a session are those of its process.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.support.readme import python_blocks

RECORDS = 200


def main(jars: str, bootstrap: str, topic: str, folder: str) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": bootstrap}
    rows = session.range(RECORDS).select(
        f.col("id").cast("string").alias("key"),
        f.concat(f.lit("value-"), f.col("id")).alias("value"),
        f.array(f.struct(f.lit("h").alias("key"), f.lit(b"1").alias("value"))).alias("headers"),
    )
    *_, write = python_blocks("Read in Spark")
    write = write.replace("127.0.0.1:9092", bootstrap).replace('"orders"', repr(topic))
    exec(write.replace('"key", "value"', '"key", "value", "headers"'), {"rows": rows})
    source = {
        **options,
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
    seen = {"batch": summary(batch), "stream": summary(streamed)}
    Path(folder, "seen.json").write_text(json.dumps(seen), encoding="utf-8")
    session.stop()


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


if __name__ == "__main__":
    main(*sys.argv[1:])
