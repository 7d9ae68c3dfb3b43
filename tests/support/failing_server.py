"""A server that answers every HTTP request with 503, as an overloaded store does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_ANSWER = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def answering_503(port: int) -> AsyncIterator[list[bytes]]:
    """Serves loopback's `port` while the body runs; yields the request lines it saw."""
    seen: list[bytes] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.read(64 * 1024)
        seen.append(request.split(b"\r\n", 1)[0])
        writer.write(_ANSWER)
        try:
            await writer.drain()
            await asyncio.sleep(0.05)  # a reset would overtake the answer while bytes come in
        except OSError:
            pass
        finally:
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    try:
        yield seen
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
