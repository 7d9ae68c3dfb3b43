"""A server on loopback that passes connections on; what it does to them, its kinds say.

When it is closed, no connection is left open: neither those that are served, nor those that were
taken a moment ago and are not served yet.
"""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import NamedTuple, Self

CHUNK = 64 * 1024
_TAKEN_S = 0.05


class Speaker(NamedTuple):
    """One side of a connection that is passed on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Proxy(ABC):
    """`async with` one of its kinds, then connect to its `port` on loopback."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Take connections, on the port of the last time if there was one."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Close every connection and refuse new ones, as if the server were gone."""
        if self._server is not None:
            self._server.close()
            self._server = None
            # Connections that were taken a moment ago come to `_accept` yet, and are closed there.
            await asyncio.sleep(_TAKEN_S)
        for writer in list(self._connections):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._connections.clear()
        await asyncio.sleep(0)  # Else a loop that ends now leaves sockets open.

    @abstractmethod
    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the real server."""

    @abstractmethod
    async def pass_on(self, client: Speaker, server: Speaker) -> None:
        """What both say; both are cut when this returns."""

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        # Here already: a task that is cancelled before it begins aborts nothing.
        self._connections.add(writer)
        task = asyncio.create_task(self._serve(reader, writer), name=type(self).__name__)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            server = Speaker(*await self.connect())
            ends.append(server.writer)
            self._connections.add(server.writer)
            await self.pass_on(Speaker(reader, writer), server)
        except OSError:
            pass  # One of them is gone.
        finally:
            for end in ends:
                end.transport.abort()
                self._connections.discard(end)
