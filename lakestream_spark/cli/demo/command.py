"""`lakestream demo`: the command, and what it hands to the platform."""

import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from lakestream_spark.cli.demo.performance import Performance
from lakestream_spark.cli.demo.program import program
from lakestream_spark.cli.demo.ready import check_ready, data_folder
from lakestream_spark.cli.demo.screen import Screen
from lakestream_spark.cli.demo.stage import Clockwork
from lakestream_spark.cli.exits import debugs
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.settings import Settings

LOG: Final = "demo.log"
_FLAGS: Final = {
    "data": "--data",
    "port": "--port",
    "admin_port": "--admin-port",
    "conf": "--conf",
}


@click.command()
@settings_options
@click.option(
    "--for",
    "run_for_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End by itself after so long, with code 0 only if the story held.",
)
@click.option("--again", hidden=True, help="What to type to start this again.")
@click.pass_context
def demo(
    context: click.Context, /, loaded: Loaded, run_for_s: float | None, again: str | None
) -> None:
    """Run the platform with a shop's orders and payments, and tell what becomes of them.

    They are produced, acknowledged, committed to a table, queried by SQL, replayed out of Parquet
    and verified; then everything goes on until Ctrl-C. A second start finds what the first left.
    """
    clockwork, settings = Clockwork(run_for_s=run_for_s), loaded.settings
    check_ready(settings)
    flags, log = _flags(context.params), _log_file(settings)
    up = [*(["--debug"] if debugs(context) else []), "up", *flags]
    screen = Screen(Console(highlight=False))
    screen.title("One stream, written once: a live Kafka stream and an open table.")
    again = again or shlex.join([*shlex.split(program()), "demo", *flags])
    context.exit(Performance(settings, clockwork, screen).run(up, log, again))


def _flags(given: Mapping[str, Any]) -> list[str]:
    """The same settings for `lakestream up`."""
    words = []
    for name, flag in _FLAGS.items():
        if given[name] is not None:
            words += [flag, str(given[name])]
    for assignment in given["assignments"]:
        words += ["--set", assignment]
    return words


def _log_file(settings: Settings) -> Path:
    folder = data_folder(settings)
    if folder is None:
        return Path(tempfile.gettempdir()) / f"lakestream-{LOG}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"{folder} cannot be used: {error.strerror}") from None
    return folder / LOG
