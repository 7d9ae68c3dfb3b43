"""Options that mean the same in every command, and the settings they give."""

import os
from collections.abc import Callable, Mapping
from functools import partial, wraps
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from lakestream_spark.settings import Entry, Loaded, load

Command: TypeAlias = Callable[..., None]
Flags: TypeAlias = Mapping[str, tuple[str, str]]
"""The flag and the setting of each parameter."""

_PORT: Final = "Kafka port on which `up` and `ingress` listen; 0 picks a free one."
_ADMIN_PORT: Final = "Port of metrics, health and a broker's status page; 0 picks a free one."
_DATA: Flags = {"data": ("--data", "data")}
_BROKER: Flags = {
    **_DATA,
    "port": ("--port", "broker.port"),
    "admin_port": ("--admin-port", "broker.admin_port"),
}


def settings_options(command: Command) -> Command:
    """Give a command `--data --port --admin-port --conf --set`; it receives `loaded` first."""
    port = click.option("--port", type=int, help=_PORT)
    return _with_settings(port(_admin_port(command)), _BROKER)


def job_options(section: str) -> Callable[[Command], Command]:
    """The same for a job, which has no Kafka port; its own section holds the admin port."""
    flags = {**_DATA, "admin_port": ("--admin-port", f"{section}.admin_port")}
    return lambda command: _with_settings(_admin_port(command), flags)


def positive(text: str) -> float:
    """The type of an option: a number above 0, and neither infinite nor `nan`."""
    try:
        number = float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number") from None
    if not isfinite(number):
        raise click.BadParameter(f"{text} is not a number to count with")
    if number <= 0:
        raise click.BadParameter(f"{text} is not above 0")
    return number


topics_option = partial(click.option, "--topics", default="*", show_default=True, metavar="PATTERN")


def _admin_port(command: Command) -> Command:
    return click.option("--admin-port", type=int, help=_ADMIN_PORT)(command)


def _with_settings(command: Command, flags: Flags) -> Command:
    @click.option("--data", metavar="DIR_OR_URL", help="Where everything lies.")
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
            for name, (flag, key) in flags.items()
            if (value := arguments.pop(name)) is not None
        ]
        given = [*(_assignment(text) for text in assignments), *named]
        command(load(environ=os.environ, flags=given, conf=conf), **arguments)

    return with_settings


def _assignment(text: str) -> Entry:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    return Entry(key=key.strip(), value=value, origin=f"--set {key.strip()}")


__all__ = ["Loaded", "job_options", "positive", "settings_options", "topics_option"]
