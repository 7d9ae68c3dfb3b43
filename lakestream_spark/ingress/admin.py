"""The admin port: `/metrics`, `/healthz` (the process lives) and `/readyz` (it may get traffic).

Further routes, such as those of the status page, come in by argument.

What always holds: the port answers from before the broker starts until after it has stopped; not
ready is 503 with the reasons as JSON; stores are asked at most once a second, however often a
balancer asks us.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Final

from aiohttp import web

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import LakestreamError

Probe = Callable[[], Awaitable[None]]
"""Asks something the broker depends on; raises when it does not answer."""

_PROBE_S: Final = 2.0
_FRESH_S: Final = 1.0


class State(Enum):
    """Where a broker is in its life; all but `SERVING` mean not ready."""

    STARTING = "the broker is starting"
    SERVING = "the broker serves"
    STOPPING = "the broker is stopping"
    FENCED = "the broker was fenced"


class Health:
    """Whether a broker may get traffic, and why not."""

    def __init__(self, clock: Clock) -> None:
        self.state = State.STARTING
        self._clock = clock
        self._probes: Mapping[str, Probe] = {}
        self._stale: Callable[[], list[str]] = list
        self._probed_at: float | None = None
        self._probed: list[str] = []

    def serving(self, probes: Mapping[str, Probe], stale: Callable[[], list[str]]) -> None:
        """Ready from now on, while every probe answers and no loop is stale."""
        self._probes = probes
        self._stale = stale
        self.state = State.SERVING

    def stopping(self) -> None:
        if self.state is not State.FENCED:
            self.state = State.STOPPING

    async def problems(self) -> list[str]:
        """Why the broker is not ready, in sentences; empty when it is."""
        if self.state is not State.SERVING:
            return [self.state.value]
        return [*self._stale(), *await self._probe()]

    async def _probe(self) -> list[str]:
        now = self._clock.monotonic()
        if self._probed_at is None or now - self._probed_at >= _FRESH_S:
            self._probed_at = now
            answers = await asyncio.gather(*(_ask(*each) for each in self._probes.items()))
            self._probed = [answer for answer in answers if answer is not None]
        return self._probed


async def _ask(name: str, probe: Probe) -> str | None:
    try:
        async with asyncio.timeout(_PROBE_S):
            await probe()
    except TimeoutError:
        return f"the {name} does not answer within {_PROBE_S:.0f} s"
    except LakestreamError as error:
        return f"the {name} fails: {error}"
    return None


@asynccontextmanager
async def admin_site(
    sock: socket.socket, health: Health, routes: Iterable[web.RouteDef] = ()
) -> AsyncIterator[None]:
    """Serve the admin port until the block ends."""
    application = web.Application()
    application.add_routes(routes)
    application.add_routes(
        [
            web.get("/metrics", _metrics),
            web.get("/healthz", _healthz),
            web.get("/readyz", _readyz),
        ]
    )
    application[_HEALTH] = health
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        yield
    finally:
        await runner.cleanup()


_HEALTH: Final = web.AppKey("health", Health)


async def _metrics(request: web.Request) -> web.Response:
    ready = not await request.app[_HEALTH].problems()
    metrics.READY.of().value = float(ready)
    return web.Response(body=metrics.page_text(), headers={"Content-Type": metrics.CONTENT_TYPE})


async def _healthz(_: web.Request) -> web.Response:
    return web.json_response({"alive": True})


async def _readyz(request: web.Request) -> web.Response:
    problems = await request.app[_HEALTH].problems()
    body = {"ready": not problems, "reasons": problems}
    return web.json_response(body, status=503 if problems else 200)
