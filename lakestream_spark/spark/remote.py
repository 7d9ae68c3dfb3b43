"""What works on one host only is refused where Spark runs on others."""

from pyspark.sql import SparkSession

from lakestream_spark.core.errors import Misconfigured


def refuse_remote_sqlite(spark: SparkSession, metadata_url: str) -> None:
    """Raises `Misconfigured` when tasks would look for the metadata on their own disks."""
    master = spark.conf.get("spark.master", "local") or "local"
    if metadata_url.startswith("sqlite") and not master.startswith("local"):
        raise Misconfigured(
            "metadata in SQLite is for one host: with a Spark master elsewhere use PostgreSQL "
            "(metadata.url = postgresql://...)",
            master=master,
        )
