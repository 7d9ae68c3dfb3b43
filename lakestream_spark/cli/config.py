"""`lakestream config show|docs`: the settings in force, and all settings there are."""

import json

import click

from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.settings.derived import RULES
from lakestream_spark.settings.document import shown, toml_document
from lakestream_spark.settings.tree import KEYS


@click.group()
def config() -> None:
    """Show the settings, where each came from, their docs."""


@config.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print the settings as JSON.")
def show(loaded: Loaded, as_json: bool) -> None:
    """Every setting in force and where it came from. Secrets are never shown."""
    rows = [(key, shown(loaded.value(key)), _origin(loaded, key)) for key in KEYS]
    if as_json:
        named = [{"key": key, "value": value, "origin": origin} for key, value, origin in rows]
        click.echo(json.dumps(named))
        return
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, value, origin in rows:
        click.echo(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {origin}")


def _origin(loaded: Loaded, key: str) -> str:
    return loaded.origins.get(key, "derived" if key in RULES else "default")


@config.command()
def docs() -> None:
    """Every setting with its default and doc, as a TOML file to start from."""
    click.echo(toml_document(), nl=False)
