"""A bare Kafka connection: frames go out as they are given, answers come back decoded."""

import asyncio
import io
import socket
import struct
from contextlib import suppress
from typing import Any, Self

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32
from kio.static.protocol import RequestPayload


class Wire:
    """One connection; requests can be sent without waiting for answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, request: RequestPayload, correlation_id: int = 1) -> None:
        header = request.__header_schema__
        buffer = io.BytesIO()
        entity_writer(header)(
            buffer,
            header(
                request_api_key=request.__api_key__,
                request_api_version=i16(request.__version__),
                correlation_id=i32(correlation_id),
                client_id="wire",
            ),
        )
        entity_writer(type(request))(buffer, request)
        await self.send_frame(buffer.getvalue())

    async def send_frame(self, frame: bytes) -> None:
        await self.send_bytes(struct.pack(">i", len(frame)) + frame)

    async def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """The next answer's correlation id and body."""
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        schema = load_response_schema(api_key, version)
        header, start = entity_reader(schema.__header_schema__)(frame, 0)
        body, _ = entity_reader(schema)(frame, start)
        return header.correlation_id, body

    async def closed_by_peer(self) -> bool:
        """True once the other side closes without another answer."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True  # Bytes that nobody read there turn the close into a reset.

    def end(self) -> None:
        """Send nothing more; answers can still be read."""
        self._writer.write_eof()

    async def reset(self) -> None:
        """Close at once, in a way that the other side sees as an error."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger
        )
        await self.close()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):  # the other side was first, by a reset
            await self._writer.wait_closed()
