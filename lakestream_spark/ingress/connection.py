"""One client connection: requests are read ahead, answers leave in order.

    socket ─► FrameBuffer ─► begin (in order) ─► bounded queue of answers ─► socket (in order)

What always holds
- the next request is read while earlier ones wait for their flush; answers keep their order;
- no more than the allowed number of requests and bytes is in flight, here and in the whole broker:
  beyond that the socket is not read;
- a frame's memory grows with the bytes that really came, never with the size a client declares;
- what breaks the protocol ends in one log line that names the peer, and a closed connection.
"""

import asyncio
import logging
from typing import Final, cast

from lakestream_spark.core.errors import LakestreamError, first_of
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.client import Client
from lakestream_spark.ingress.dispatch import begin
from lakestream_spark.ingress.frames import FrameBuffer
from lakestream_spark.ingress.messages import read_envelope
from lakestream_spark.kafka.pieces import Pieces

_log: Final = logging.getLogger(__name__)

Answer = asyncio.Task[Pieces | None]


class Connection(asyncio.BufferedProtocol):
    """Reads frames as they arrive and answers them; `drain` ends it without losing an answer."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._frames = FrameBuffer(broker.limits.max_request_bytes)
        self._transport: asyncio.Transport | None = None
        self._serving: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._answers: asyncio.Queue[Answer | None] = asyncio.Queue(
            broker.limits.max_requests_in_flight
        )
        self._open_answers = 0
        self._charged = 0
        self._paused = False
        self._ended = False
        self._client = Client()
        self.last_active = 0.0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._client = Client(_peer_name(transport.get_extra_info("peername")))
        loop = asyncio.get_running_loop()
        self.last_active = loop.time()
        self._serving = loop.create_task(self._serve(), name=f"connection-{self.peer}")

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the frame knows better
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        self.last_active = asyncio.get_running_loop().time()
        self._arrived.set()
        # One frame is served from the buffer at a time; more of them wait in the kernel.
        if (self._frames.full or self._frames.stuck) and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended = True
        self._arrived.set()
        self._client.depart()
        return True  # Half-closed: answers are still written, but none waits for more to come.

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - its peer is gone
        self._ended = True
        self._arrived.set()
        self._writable.set()
        if self._serving is not None:
            self._serving.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Our side

    @property
    def closed(self) -> asyncio.Task[None] | None:
        """Done when everything of this connection has ended."""
        return self._serving

    @property
    def peer(self) -> str:
        return self._client.name

    @property
    def requests_in_flight(self) -> int:
        return self._open_answers

    def stop_reading(self) -> None:
        """Take no further request; those that were read are answered."""
        self._ended = True
        self._arrived.set()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def drain(self) -> None:
        """Answer what was read, then close."""
        self.stop_reading()
        if self._serving is not None:
            await asyncio.wait([self._serving])

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write_answers())
                await self._read_requests(tasks)
        except* LakestreamError as refused:
            error = first_of(refused)
            _log.warning("closing the connection from %s: %s", self.peer, error)
        except* (ConnectionError, OSError):
            _log.debug("the client at %s went away", self.peer)
        except* Exception:
            _log.exception("closing the connection from %s after an unexpected error", self.peer)
        finally:
            self._broker.inflight.release(self._charged)
            self._charged = 0
            if self._transport is not None:
                self._transport.close()

    async def _read_requests(self, tasks: asyncio.TaskGroup) -> None:
        while (frame := await self._next_frame()) is not None:
            size = len(frame)
            await self._charge(size - self._charged)
            try:
                answer = await begin(self._broker, read_envelope(frame), frame, self._client)
            finally:
                self._frames.taken(size)
                self._resume()
            task = tasks.create_task(answer)
            charged, self._charged = self._charged, 0
            self._open_answers += 1
            task.add_done_callback(lambda _, charged=charged: self._answered(charged))  # type: ignore[misc]
            await self._answers.put(task)
        await self._answers.put(None)

    async def _charge(self, size: int) -> None:
        """Wait until the whole broker has room for so many more bytes of the frame being read."""
        if size > 0:
            inflight = self._broker.inflight
            await inflight.acquire(size, within_s=self._broker.limits.busy_timeout_s)
            self._charged += size

    def _answered(self, size: int) -> None:
        self._open_answers -= 1
        self._broker.inflight.release(size)

    async def _next_frame(self) -> memoryview | None:
        """The next whole frame, a view that is valid until `taken`; None when the client ended."""
        while True:
            frame = self._frames.frame()
            if frame is not None or self._ended:
                return frame
            if self._frames.stuck:
                await self._charge(self._frames.capacity)
                self._frames.grow()
            self._resume()
            self._arrived.clear()
            await self._arrived.wait()

    def _resume(self) -> None:
        stopped = self._frames.full or self._frames.stuck
        if self._paused and not stopped and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def rest(self) -> None:
        """Called from time to time while the connection is idle."""
        if not self._open_answers:
            self._frames.rest()

    async def _write_answers(self) -> None:
        while (waiting := await self._answers.get()) is not None:
            answer = await waiting
            if answer is None or self._transport is None:
                continue
            # The client may have gone while the answer was made: uvloop takes no more bytes then.
            if self._transport.is_closing():
                return
            self._transport.writelines(answer.parts)
            if not self._writable.is_set():
                await self._writable.wait()


def _peer_name(peer: object) -> str:
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
