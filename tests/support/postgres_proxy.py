"""A proxy before PostgreSQL's Unix socket that cuts connections or falls silent, on command.

`after`: the server has committed and answered, but the client never hears of it.
`before`: the client has sent COMMIT, the server never sees it and rolls back.
A silent one takes what clients send, and neither answers nor closes.
"""

import asyncio
from typing import Literal
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from tests.support.proxy import CHUNK, Proxy, Speaker

_COMMIT = b"COMMIT\x00"

Side = Literal["before", "after"]


class PostgresProxy(Proxy):
    """`async with PostgresProxy(url) as proxy:` then connect to `proxy.url`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._given = urlsplit(url)
        self._query = parse_qs(self._given.query)
        self._socket = f"{self._query['host'][0]}/.s.PGSQL.5432"
        self._cuts: list[Side] = []
        self._speaks = asyncio.Event()
        self._speaks.set()
        self.cut: list[Side] = []
        """The cuts that were made."""

    @property
    def url(self) -> str:
        address = f"{self._given.username or ''}@127.0.0.1:{self.port}"
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

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._socket)

    async def pass_on(self, client: Speaker, server: Speaker) -> None:
        replies = asyncio.create_task(_forward(server.reader, client.writer))
        try:
            while data := await client.reader.read(CHUNK):
                await self._speaks.wait()
                # The driver sends COMMIT alone, after the answer to everything before it.
                side = self._cuts.pop(0) if self._cuts and data.endswith(_COMMIT) else None
                if side == "after":
                    replies.cancel()
                    await asyncio.gather(replies, return_exceptions=True)
                if side != "before":
                    server.writer.write(data)
                    await server.writer.drain()
                if side is not None:
                    if side == "after":
                        assert await server.reader.read(CHUNK)
                    self.cut.append(side)
                    return
        finally:
            replies.cancel()
            await asyncio.gather(replies, return_exceptions=True)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()
