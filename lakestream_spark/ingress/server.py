"""The connections of a broker on its listening socket.

What always holds: no more connections are open than allowed, in all and per address; a connection
that is idle for long is closed; `drain` answers what was read and is over in bounded time.
"""

import asyncio
import logging
import socket
from collections import Counter
from dataclasses import dataclass
from typing import Final

from lakestream_spark.core import metrics
from lakestream_spark.core.logs import event
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.connection import Connection

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections may be open; the names of Kafka's own settings are in the comments."""

    total: int = 10_000  # max.connections
    per_ip: int = 10_000  # max.connections.per.ip
    max_idle_s: float = 600.0  # connections.max.idle.ms


class Listener:
    """Accepts connections for a broker and knows the open ones."""

    def __init__(self, broker: Broker, sock: socket.socket, limits: ConnectionLimits) -> None:
        self._broker = broker
        self._sock = sock
        self._limits = limits
        self._server: asyncio.Server | None = None
        self._open: set[_Accepted] = set()
        self._per_ip: Counter[str] = Counter()
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    @property
    def connections(self) -> int:
        return len(self._open)

    @property
    def requests_in_flight(self) -> int:
        return sum(each.requests_in_flight for each in self._open)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Accepted(self._broker, self), sock=self._sock
        )

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def drain(self, within_s: float) -> None:
        """Answer what was read on every connection and close it; close all when time is up."""
        drains = [asyncio.create_task(each.drain(), name="drain") for each in self._open]
        try:
            async with asyncio.timeout(max(within_s, 0.0)):
                await asyncio.gather(*drains, return_exceptions=True)
                await self._all_closed.wait()
        except TimeoutError:
            left = [each.peer for each in self._open]
            event(_log, logging.WARNING, "closing connections that did not end", peers=left[:10])
        for each in list(self._open):
            each.abort()

    async def tend(self) -> bool:
        """Close connections that were idle for too long; called from time to time."""
        now = asyncio.get_running_loop().time()
        for each in list(self._open):
            if each.requests_in_flight:
                continue
            each.rest()
            if now - each.last_active > self._limits.max_idle_s:
                metrics.CONNECTIONS_REFUSED.of("idle").add()
                each.abort()
        return False

    def admit(self, connection: "_Accepted", host: str) -> bool:
        """Count the connection in, unless there are too many."""
        total, own = len(self._open), self._per_ip[host]
        if total >= self._limits.total or own >= self._limits.per_ip:
            reason = "total" if total >= self._limits.total else "per_ip"
            metrics.CONNECTIONS_REFUSED.of(reason).add()
            event(_log, logging.WARNING, "refused a connection: too many are open", peer=host)
            return False
        self._open.add(connection)
        self._per_ip[host] += 1
        self._all_closed.clear()
        return True

    def forget(self, connection: "_Accepted", host: str) -> None:
        self._open.discard(connection)
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        if not self._open:
            self._all_closed.set()


class _Accepted(Connection):
    """A connection that its listener counts."""

    def __init__(self, broker: Broker, listener: Listener) -> None:
        super().__init__(broker)
        self._listener = listener
        self._host: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        if not self._listener.admit(self, host):
            transport.close()
            return
        self._host = host
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._host is not None:
            self._listener.forget(self, self._host)
        super().connection_lost(exc)
