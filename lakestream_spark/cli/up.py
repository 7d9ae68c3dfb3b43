"""`lakestream up`: a broker and the compaction together, in the foreground, until Ctrl-C."""

import click

from lakestream_spark.cli.announce import Announce
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.workers import supervise


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Say where the broker listens as JSON.")
@click.pass_context
def up(context: click.Context, /, loaded: Loaded, as_json: bool) -> None:
    """Run a broker and the compaction of its topics together."""
    announce = Announce.JSON if as_json else Announce.TEXT
    context.exit(supervise(loaded.settings, 1, announce, with_compaction=True))
