"""Which brokers a client command talks to."""

import re
import socket
from collections.abc import Callable
from typing import Final

import click

from lakestream_spark.cli.asking import ask
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.settings import Settings

_CONNECT_S: Final = 2.0
_PORT: Final = re.compile(r"[0-9]{1,5}")
_LAST_PORT: Final = 65_535

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
    if not host or not _PORT.fullmatch(port) or int(port) > _LAST_PORT:
        raise click.BadParameter(f"{address[:80]!r} is not HOST:PORT", param_hint="--broker")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError:
        return False
    except UnicodeError:
        # Of the encoding that names of hosts have: a label is empty, or longer than 63 characters.
        raise click.BadParameter(
            f"{host[:80]!r} is no name of a host", param_hint="--broker"
        ) from None
    return True
