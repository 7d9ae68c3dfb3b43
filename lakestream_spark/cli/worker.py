"""One broker in this process, from its settings to its end."""

import asyncio
import signal
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Final

import click

from lakestream_spark.app import RunningBroker, serve
from lakestream_spark.cli.announce import Announce, Ports
from lakestream_spark.core.collector import spare_the_collector
from lakestream_spark.core.logs import configure
from lakestream_spark.settings import Settings

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run_worker(
    settings: Settings, announce: Announce, told: Callable[[Ports], None] | None = None
) -> None:
    """One broker in this process until it is told to stop; raises why it ended otherwise."""
    log = settings.log
    configure(level=log.level, form=log.format, context={"broker": settings.broker.id})

    def ready(broker: RunningBroker, admin_port: int) -> None:
        spare_the_collector()
        if told is not None:
            told(Ports(broker.address.port, admin_port))
        host = settings.broker.admin_host
        admin = f"[{host}]:{admin_port}" if ":" in host else f"{host}:{admin_port}"
        click.echo(announce.line(broker.address.node_id, broker.bootstrap, admin))

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop.set)
        _stop_with_parent(loop, stop)
        await serve(settings, stop, ready)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


def _stop_with_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    parent = parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def gone() -> None:
        loop.remove_reader(sentinel)
        stop.set()

    loop.add_reader(sentinel, gone)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # Not on Windows: asyncio's own loop serves as well, slower.
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop
