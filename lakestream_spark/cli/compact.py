"""`lakestream compact`: move what is acknowledged from the WAL into the tables."""

from collections.abc import Callable
from typing import Final

import click

from lakestream_spark.cli.compaction import run_compaction
from lakestream_spark.cli.options import Loaded, job_options, topics_option
from lakestream_spark.spark.session import Session

CONTINUOUS: Final = "continuous"
AVAILABLE_NOW: Final = "available-now"


def compact_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `lakestream compact` and the entry for spark-submit both take."""
    trigger = click.option(
        "--trigger",
        type=click.Choice([CONTINUOUS, AVAILABLE_NOW]),
        default=CONTINUOUS,
        show_default=True,
        help="Run until told to stop, or until everything acknowledged so far is in its table.",
    )
    topics = topics_option(help="Topics to compact, such as 'orders-*'.")
    return job_options("compact")(topics(trigger(command)))


def compact_and_tell(
    loaded: Loaded, topics: str, trigger: str, session: Session | None = None
) -> None:
    """Compact, in a local Spark unless a session is given, and say what was done."""
    done = run_compaction(
        loaded.settings, topics=topics, until_drained=trigger == AVAILABLE_NOW, session=session
    )
    click.echo(f"{done.rows} rows in {done.files} files, {done.commits} commits")


@click.command()
@compact_options
def compact(loaded: Loaded, topics: str, trigger: str) -> None:
    """Move records from the WAL into the tables, in a local Spark."""
    compact_and_tell(loaded, topics, trigger)
