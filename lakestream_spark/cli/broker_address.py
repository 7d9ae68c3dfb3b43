"""Which brokers a client command talks to."""

import socket
from collections.abc import Callable
from typing import Final

import click

from lakestream_spark.cli.asking import ask
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.settings import Settings

_CONNECT_S: Final = 2.0

broker_option: Final[Callable[[Callable[..., None]], Callable[..., None]]] = click.option(
    "--broker",
    metavar="HOST:PORT",
    help="Any broker; by default those that the metadata store knows.",
)


def bootstrap(settings: Settings, broker: str | None) -> str:
    """Addresses for `bootstrap.servers`; raises `Unavailable` when nobody listens there."""
    given = [broker] if broker else _registered(settings)
    alive = [address for address in given if listens(address)]
    if not alive:
        tried = f" at {', '.join(given)}" if given else ""
        raise Unavailable(f"no broker answers{tried}: start `lakestream up`, or name one: --broker")
    return ",".join(alive)


def _registered(settings: Settings) -> list[str]:
    nodes = [each.registration.node for each in ask(settings, lambda m: m.brokers.list())]
    return [f"{node.host}:{node.port}" for node in nodes]


def listens(address: str) -> bool:
    """Whether somebody takes connections there."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"{address!r} is not HOST:PORT", param_hint="--broker")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError:
        return False
    return True
