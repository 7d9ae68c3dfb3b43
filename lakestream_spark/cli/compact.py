"""`lakestream compact`: move what is acknowledged from the WAL into the tables."""

from typing import Literal

import click

from lakestream_spark.cli.compaction import run_compaction
from lakestream_spark.cli.options import Loaded, settings_options

CONTINUOUS = "continuous"
AVAILABLE_NOW = "available-now"


@click.command()
@settings_options
@click.option(
    "--topics", default="*", metavar="PATTERN", help="Topics to compact, such as 'orders-*'."
)
@click.option(
    "--trigger",
    type=click.Choice([CONTINUOUS, AVAILABLE_NOW]),
    default=CONTINUOUS,
    help="Run until told to stop, or until everything acknowledged so far is in its table.",
)
def compact(loaded: Loaded, topics: str, trigger: Literal["continuous", "available-now"]) -> None:
    """Move records from the WAL into the tables, in a local Spark."""
    done = run_compaction(loaded.settings, topics=topics, until_drained=trigger == AVAILABLE_NOW)
    click.echo(f"{done.rows} rows in {done.files} files, {done.commits} commits")
