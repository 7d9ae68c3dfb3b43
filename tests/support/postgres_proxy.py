"""A proxy before PostgreSQL's Unix socket that cuts connections or falls silent, on command.

`after`: the server has committed and answered, but the client never hears of it.
`before`: the client has sent COMMIT, the server never sees it and rolls back.
A silent one takes what clients send, and neither answers nor closes.
"""

import asyncio
from types import TracebackType
from typing import Literal, Self
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

_CHUNK = 64 * 1024
_COMMIT = b"COMMIT\x00"
_TAKEN_S = 0.05

Side = Literal["before", "after"]


class PostgresProxy:
    """`async with PostgresProxy(url) as proxy:` then connect to `proxy.url`."""

    def __init__(self, url: str) -> None:
        self._given = urlsplit(url)
        self._query = parse_qs(self._given.query)
        self._socket = f"{self._query['host'][0]}/.s.PGSQL.5432"
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cuts: list[Side] = []
        self._speaks = asyncio.Event()
        self._speaks.set()
        self.cut: list[Side] = []
        """The cuts that were made."""

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        address = f"{self._given.username or ''}@127.0.0.1:{port}"
        rest = {name: values for name, values in self._query.items() if name != "host"}
        query = urlencode({**rest, "sslmode": "disable"}, doseq=True)
        return urlunsplit(("postgresql", address, self._given.path, query, ""))

    def cut_commits(self, *sides: Side) -> None:
        """Cut the connections of the next commits, one each."""
        self._cuts.extend(sides)

    def falls_silent(self) -> None:
        self._speaks.clear()

    def speaks_again(self) -> None:
        self._speaks.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._server = None
        # Connections that were taken a moment ago come to `_accept` yet, and are closed there.
        await asyncio.sleep(_TAKEN_S)
        for writer in self._connections:
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # Else a loop that ends now leaves sockets open.

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        # Here already: a task that is cancelled before it begins aborts nothing.
        self._connections.add(writer)
        task = asyncio.create_task(self._serve(reader, writer), name="postgres-proxy")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
            try:
                await self._pass_on(reader, writer, server_reader, server_writer)
            finally:
                server_writer.transport.abort()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._connections.discard(writer)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        """What both sides say, until one is done or is cut."""
        replies = asyncio.create_task(_forward(server_reader, writer))
        try:
            while data := await reader.read(_CHUNK):
                await self._speaks.wait()
                # The driver sends COMMIT alone, after the answer to everything before it.
                side = self._cuts.pop(0) if self._cuts and data.endswith(_COMMIT) else None
                if side == "after":
                    replies.cancel()
                    await asyncio.gather(replies, return_exceptions=True)
                if side != "before":
                    server_writer.write(data)
                    await server_writer.drain()
                if side is not None:
                    if side == "after":
                        assert await server_reader.read(_CHUNK)
                    self.cut.append(side)
                    return
        finally:
            replies.cancel()
            await asyncio.gather(replies, return_exceptions=True)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()
