"""One socket to one reader process: questions out, answers in, matched by their numbers."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import NamedTuple, cast

from lakestream_spark.history.messages import HEAD, Kind


class ReaderGone(Exception):
    """The process ended before it answered."""


class Answer(NamedTuple):
    """The body is the reader's own bytes, received once and never copied."""

    kind: Kind
    body: bytearray


class Link(asyncio.BufferedProtocol):
    """Takes frames straight into the buffers they stay in."""

    def __init__(self, tallied: Callable[[bytearray], None]) -> None:
        self._tallied = tallied
        self._transport: asyncio.Transport | None = None
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._head = bytearray(HEAD.size)
        self._body: bytearray | None = None
        self._about = (0, Kind.ERROR)
        self._filled = 0
        self._heard_at = 0.0
        self.lost = False

    @property
    def silent_s(self) -> float:
        """Since the last byte came, or else since the process was started."""
        return asyncio.get_running_loop().time() - self._heard_at

    async def ask(self, body: bytes) -> Answer:
        """Raises `ReaderGone` when the process ends before it answers."""
        if self.lost:
            raise ReaderGone
        number = next(self._numbers)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self.tell(Kind.QUESTION, body, number)
            return await answer
        finally:
            self._waiting.pop(number, None)

    def tell(self, kind: Kind, body: bytes, number: int = 0) -> None:
        if self._transport is not None:
            self._transport.writelines([HEAD.pack(len(body), number, kind), body])

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        # Not checked: those of uvloop are not asyncio's own class.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the frame knows better
        return memoryview(self._head if self._body is None else self._body)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._filled += nbytes
        if self._body is None and self._filled == HEAD.size:
            size, number, kind = HEAD.unpack(self._head)
            self._about = (number, Kind(kind))
            self._body, self._filled = bytearray(size), 0
        if self._body is not None and self._filled == len(self._body):
            body, self._body, self._filled = self._body, None, 0
            self._take(*self._about, body)

    def _take(self, number: int, kind: Kind, body: bytearray) -> None:
        if kind is Kind.ALIVE:
            return
        if kind is Kind.TALLY:
            self._tallied(body)
            return
        waiting = self._waiting.get(number)
        # Who asked may have given up meanwhile.
        if waiting is not None and not waiting.done():
            waiting.set_result(Answer(kind, body))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - its peer is gone
        self.lost = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ReaderGone())
