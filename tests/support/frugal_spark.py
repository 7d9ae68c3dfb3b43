"""Spark with few tasks: tests have few rows, and each task costs more than they do."""

from pyspark.sql import SparkSession


def frugal(session: SparkSession) -> None:
    """Two tasks where the default is 50 or 200."""
    for name in ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions"):
        session.conf.set(name, "2")
