"""spark-submit entry: a worked example, from the stream of orders into a silver table.

spark-submit --properties-file pipelines/spark.conf \\
    pipelines/silver.py --data DIR_OR_URL --checkpoint DIR_OR_URL
"""

from threading import Event

import click

from lakestream_spark.cli.compaction import stopped_by_signals
from lakestream_spark.cli.exits import run_entry
from lakestream_spark.core.logs import configure
from lakestream_spark.reading import installation
from lakestream_spark.spark.session import submitted_session
from lakestream_spark.spark.silver.pipeline import SilverBatch, SilverJob, drain, run


@click.command()
@click.option("--data", metavar="DIR_OR_URL", help="Where everything lies.")
@click.option("--conf", metavar="FILE", help="TOML file of settings.")
@click.option("--topic", default="orders", show_default=True)
@click.option("--namespace", default="silver", show_default=True, help="Of both tables.")
@click.option("--checkpoint", required=True, metavar="DIR_OR_URL", help="How far the stream is.")
@click.option("--trigger", type=click.Choice(["continuous", "available-now"]), default="continuous")
@click.option("--every", "every_s", default=10.0, show_default=True, metavar="SECONDS")
@click.option("--batch", "batch_rows", default=200_000, show_default=True, help="Records at most.")
def silver(
    data: str | None, conf: str | None, topic: str, namespace: str, trigger: str, **rest: str
) -> None:
    """Check orders with Great Expectations: good ones typed into silver, bad ones set aside.

    Each record ends in one of the two tables, once. An example: copy lakestream_spark/spark/silver.
    """
    configure(level="info", form="text", context={"job": "silver"})
    catalog = installation(data, conf).catalog
    given = {"data": data, "conf": conf, "maxOffsetsPerTrigger": rest["batch_rows"]}
    options = {name: str(value) for name, value in given.items() if value is not None}
    job = SilverJob.of(catalog.name, namespace, topic, rest["checkpoint"], options)
    stop = Event()
    with submitted_session("lakestream-silver", catalog) as session, stopped_by_signals(stop):
        batch = SilverBatch(session(), job)
        if trigger == "available-now":
            rows = drain(session(), job, batch)
        else:
            rows = run(session(), job, batch, every_s=float(rest["every_s"]), stopped=stop.is_set)
    click.echo(f"{rows} records judged")


if __name__ == "__main__":
    run_entry(silver, name="silver.py")
