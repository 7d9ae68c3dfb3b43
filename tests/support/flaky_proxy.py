"""A TCP proxy that breaks on command, put in front of a real server.

It forwards bytes untouched until told otherwise. What it can do: refuse connections, delay answers,
lose the answer to a request that went through, cut an upload in the middle, and refuse requests of
one kind.
"""

import asyncio

from tests.support.proxy import CHUNK, Proxy, Speaker


class FlakyProxy(Proxy):
    """`async with FlakyProxy(host, port) as proxy:` then connect to `proxy.port` on loopback."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self._target = (host, port)
        self._replies_to_lose = 0
        self._uploads_to_cut = 0
        self._cut_after = 0
        self._refused: tuple[bytes, ...] = ()
        self.delay_s = 0.0
        self.replies_lost = 0
        self.uploads_cut = 0
        self.last_request = b""
        """The first bytes of the newest request seen."""

    async def refuse(self) -> None:
        await self.close()

    async def heal(self) -> None:
        """Forward again, on the same port, and forget every order given."""
        self._replies_to_lose = self._uploads_to_cut = 0
        self._refused = ()
        self.delay_s = 0.0
        await self.open()

    def lose_replies(self, times: int = 1) -> None:
        """The server sees the next requests and does them; the client never hears of it."""
        self._replies_to_lose = times

    def cut_uploads(self, *, after_bytes: int, times: int = 1) -> None:
        """Break the next connections once they have sent that many bytes."""
        self._uploads_to_cut, self._cut_after = times, after_bytes

    def refuse_requests(self, *holding: bytes) -> None:
        """Break every connection that sends a request whose first bytes hold all of these."""
        self._refused = holding

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._target)

    async def pass_on(self, client: Speaker, server: Speaker) -> None:
        both = (
            asyncio.create_task(self._requests(client.reader, server.writer)),
            asyncio.create_task(self._replies(server.reader, client.writer)),
        )
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in both:
                direction.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        while data := await reader.read(CHUNK):
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
        while data := await reader.read(CHUNK):
            if self._replies_to_lose:
                self._replies_to_lose -= 1
                self.replies_lost += 1
                return
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(data)
            await writer.drain()
