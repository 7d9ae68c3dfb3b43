"""Options that mean the same in every command, and the settings they give."""

import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click

from lakestream_spark.settings import Entry, Loaded, load

_FLAGS: Mapping[str, tuple[str, str]] = {
    "data": ("--data", "data"),
    "port": ("--port", "broker.port"),
    "admin_port": ("--admin-port", "broker.admin_port"),
}


def settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--data --port --admin-port --conf --set`; it receives `loaded` first."""

    @click.option("--data", metavar="DIR_OR_URL", help="Where everything lies.")
    @click.option("--port", type=int, help="Kafka port; 0 picks a free one.")
    @click.option("--admin-port", type=int, help="Port for metrics and health.")
    @click.option(
        "--conf", type=click.Path(path_type=Path), metavar="FILE", help="TOML file of settings."
    )
    @click.option(
        "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting, repeatable."
    )
    @wraps(command)
    def with_settings(conf: Path | None, assignments: tuple[str, ...], **arguments: Any) -> None:
        named = [
            Entry(key=key, value=value, origin=flag)
            for name, (flag, key) in _FLAGS.items()
            if (value := arguments.pop(name)) is not None
        ]
        flags = [*(_assignment(text) for text in assignments), *named]
        command(load(environ=os.environ, flags=flags, conf=conf), **arguments)

    return with_settings


def _assignment(text: str) -> Entry:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    return Entry(key=key.strip(), value=value, origin=f"--set {key.strip()}")


__all__ = ["Loaded", "settings_options"]
