"""`lakestream ingress`: one broker, or several over one store, until SIGTERM or SIGINT."""

import click

from lakestream_spark.cli.announce import Announce
from lakestream_spark.cli.exits import debugs
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.workers import supervise


@click.command()
@settings_options
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Run N brokers, each a process with its own port and node id.",
)
@click.option("--json", "as_json", is_flag=True, help="Say where each broker listens as JSON.")
@click.pass_context
def ingress(context: click.Context, /, loaded: Loaded, workers: int, as_json: bool) -> None:
    """Run Kafka brokers until they are told to stop."""
    announce = Announce.JSON if as_json else Announce.TEXT
    if workers > 1:
        context.exit(supervise(loaded.settings, workers, announce, debug=debugs(context)))
    # Here and not above: the parent of several starts in a moment and stays small without it.
    from lakestream_spark.cli.worker import run_worker

    run_worker(loaded.settings, announce)
