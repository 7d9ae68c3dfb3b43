"""A TCP proxy that breaks on command, put in front of a real server.

It forwards bytes untouched until told otherwise. What it can do: refuse connections, delay answers,
lose the answer to a request that went through, cut an upload in the middle, and refuse requests of
one kind.
"""

import asyncio
from types import TracebackType
from typing import Self

_CHUNK = 64 * 1024


class FlakyProxy:
    """`async with FlakyProxy(host, port) as proxy:` then connect to `proxy.port` on loopback."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._replies_to_lose = 0
        self._uploads_to_cut = 0
        self._cut_after = 0
        self._refused: tuple[bytes, ...] = ()
        self.port = 0
        self.delay_s = 0.0
        self.replies_lost = 0
        self.uploads_cut = 0
        self.last_request = b""
        """The first bytes of the newest request seen."""

    async def __aenter__(self) -> Self:
        await self.heal()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.refuse()

    async def refuse(self) -> None:
        """Close every connection and refuse new ones, as if the server were gone."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._connections):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._connections.clear()
        await asyncio.sleep(0)  # Else a loop that ends now leaves sockets open.

    async def heal(self) -> None:
        """Forward again, on the same port, and forget every order given."""
        self._replies_to_lose = self._uploads_to_cut = 0
        self._refused = ()
        self.delay_s = 0.0
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def lose_replies(self, times: int = 1) -> None:
        """The server sees the next requests and does them; the client never hears of it."""
        self._replies_to_lose = times

    def cut_uploads(self, *, after_bytes: int, times: int = 1) -> None:
        """Break the next connections once they have sent that many bytes."""
        self._uploads_to_cut, self._cut_after = times, after_bytes

    def refuse_requests(self, *holding: bytes) -> None:
        """Break every connection that sends a request whose first bytes hold all of these."""
        self._refused = holding

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()  # taken from the queue of a socket that is closed by now
            return
        # Here already: a task that is cancelled before it begins aborts nothing.
        self._connections.add(writer)
        task = asyncio.create_task(self._serve(reader, writer), name="flaky-proxy")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        both: list[asyncio.Task[None]] = []
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            ends.append(server_writer)
            self._connections.add(server_writer)
            both += (
                asyncio.create_task(self._requests(reader, server_writer)),
                asyncio.create_task(self._replies(server_reader, writer)),
            )
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # The server is gone.
        finally:
            for direction in both:
                direction.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            for end in ends:
                end.transport.abort()
                self._connections.discard(end)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        while data := await reader.read(_CHUNK):
            self.last_request = data
            if self._refused and all(each in data for each in self._refused):
                return
            if self._uploads_to_cut and sent + len(data) > self._cut_after:
                self._uploads_to_cut -= 1
                self.uploads_cut += 1
                writer.write(data[: max(0, self._cut_after - sent)])
                await writer.drain()
                await asyncio.sleep(0.05)  # the server must have seen the first part
                return
            sent += len(data)
            writer.write(data)
            await writer.drain()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if self._replies_to_lose:
                self._replies_to_lose -= 1
                self.replies_lost += 1
                return
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(data)
            await writer.drain()
