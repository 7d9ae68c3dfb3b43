"""Register the Delta table of a topic as an external table, so that everybody finds it by name.

The table's files stay where compaction writes them; what it commits later is seen by the same name.
"""

import click
from pyspark.sql import SparkSession

from lakestream_spark.cli.connect import Place, place_of
from lakestream_spark.cli.exits import run_entry
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.quoting import in_backticks, spark_text
from lakestream_spark.core.errors import Misconfigured


def register(spark: SparkSession, place: Place, catalog: str) -> str:
    """Make the schema and the table, unless they are there; its full name."""
    if not place.has_delta:
        raise Misconfigured(
            f"the topic has no Delta log: `lakestream topic alter {place.topic} "
            "--config lakestream.table.formats=iceberg,delta`, then flush it"
        )
    *namespace, _ = place.identifier
    name = in_backticks(catalog, *place.identifier)
    location = spark_text(place.location)
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {in_backticks(catalog, *namespace)}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION {location}")
    return name


@click.command()
@click.argument("topic")
@click.option("--catalog", default="main", show_default=True, help="Catalog that gets the table.")
@settings_options
def main(loaded: Loaded, topic: str, catalog: str) -> None:
    """Register the topic's Delta table as an external table."""
    spark = SparkSession.builder.getOrCreate()
    click.echo(register(spark, place_of(loaded.settings, topic), catalog))


if __name__ == "__main__":
    run_entry(main, name="register.py")
