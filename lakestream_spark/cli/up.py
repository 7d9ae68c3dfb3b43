"""`lakestream up`: a broker and the compaction together, in the foreground, until Ctrl-C."""

import click

from lakestream_spark.cli.announce import Announce
from lakestream_spark.cli.exits import debugs
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.signals import stop_after
from lakestream_spark.cli.workers import supervise


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Say where the broker listens as JSON.")
@click.option("--parent", type=int, hidden=True, help="Stop when this parent process is gone.")
@click.pass_context
def up(context: click.Context, /, loaded: Loaded, as_json: bool, parent: int | None) -> None:
    """Run a broker and the compaction of its topics together."""
    if parent is not None:
        stop_after(parent)
    announce = Announce.JSON if as_json else Announce.TEXT
    code = supervise(loaded.settings, 1, announce, with_compaction=True, debug=debugs(context))
    context.exit(code)
