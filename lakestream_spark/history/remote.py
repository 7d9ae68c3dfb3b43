"""The broker's side of history: a reader process, started ahead or else at the first need.

What always holds: a broker loads neither pyiceberg nor Arrow; bytes asked for and not yet answered
are bounded; questions that a process left behind when it died are asked once more of the next one,
and one that fails again is a retriable error: nothing is skipped. A process that works is never
ended, however long that takes: who asked gets a retriable error, and asks again for what was done
meanwhile. The process ends with the broker, whatever ends the broker, because its socket does.
"""

import asyncio
import logging
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from typing import Final

from lakestream_spark.core.errors import LakestreamError, Unavailable
from lakestream_spark.core.logs import event
from lakestream_spark.history.about import TableFacts
from lakestream_spark.history.figures import HistoryFigures
from lakestream_spark.history.first_looks import FirstLooks
from lakestream_spark.history.link import Answer, Link, ReaderGone
from lakestream_spark.history.messages import (
    Kind,
    Question,
    Start,
    error_from_body,
    place_from_body,
)
from lakestream_spark.kafka.pieces import Piece
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.wal.budget import ByteBudget

_log: Final = logging.getLogger(__name__)
_COMMAND: Final = [sys.executable, "-m", "lakestream_spark.history.process"]
_ANSWER_WITHIN_S: Final = 25.0
"""Less than clients wait for an answer, so that they get an error that says what is wrong."""
_SILENT_SHARE: Final = 0.8
"""Of that time: its last sign of life may still have been on its way when it was asked."""
_SMALLEST_BYTES: Final = 256 * 1024
_SHARE_IN_FLIGHT: Final = 4
_LEAST_READS: Final = 8
"""So many of the largest answers are on their way at once, whatever clients ask for."""
_SOCKET_BYTES: Final = 4 * 1024 * 1024
_TRIES: Final = 2
_LONGEST_PAUSE_S: Final = 5.0
_END_WITHIN_S: Final = 5.0


class HistoryProcess:
    """The part of every topic that is in its table, read by another process."""

    def __init__(
        self, spec: CatalogSpec, memory_bytes: int, *, answer_within_s: float = _ANSWER_WITHIN_S
    ) -> None:
        self._start = Start.of(spec, memory_bytes)
        self._answer_within_s = answer_within_s
        self._budget = ByteBudget(memory_bytes // _SHARE_IN_FLIGHT)
        self._first_looks = FirstLooks()
        self.figures: Final = HistoryFigures()
        self._largest = memory_bytes // _SHARE_IN_FLIGHT // _LEAST_READS
        self._opening: asyncio.Task[Link] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_early = 0
        self._not_before = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Of the reader process, if it was needed yet."""
        return None if self._process is None else self._process.pid

    @property
    def bytes_in_flight(self) -> int:
        return self._budget.used

    async def start_ahead(self) -> None:
        """Start the process before anybody needs it: who reads first need not wait for imports."""
        try:
            await self._link()
        except Unavailable as error:
            event(_log, logging.WARNING, "tables are not read yet", error=error)

    async def read(self, topic: Topic, partition: int, offset: int, max_bytes: int) -> Piece:
        """Whole batches from the one with `offset` on, about `max_bytes` of them (at least one).

        Raises `Unavailable` when the table does not reach the offset yet.
        """
        size = min(max_bytes, self._largest)
        question = Question.read(topic, partition, offset, size)
        charge = max(size, _SMALLEST_BYTES)
        loop = asyncio.get_running_loop()
        # One time for all: a client waits for none of them longer.
        deadline = loop.time() + self._answer_within_s
        with self.figures.answering("batches"):
            async with self._first_looks.turn(topic.id, self._answer_within_s):
                with self.figures.waiting():
                    await self._budget.acquire(charge, within_s=deadline - loop.time())
                try:
                    body = (await self._ask(question, deadline - loop.time())).body
                finally:
                    self._budget.release(charge)
        self.figures.served(len(body))
        return body

    async def offset_for_timestamp(
        self, topic: Topic, partition: int, timestamp_ms: int, offsets: range
    ) -> TimestampedOffset | None:
        """The first row of these offsets, or after them, whose time is not before the time."""
        question = Question.at_time(topic, partition, timestamp_ms, offsets)
        with self.figures.answering("a time"):
            return place_from_body((await self._ask(question)).body)

    async def offset_of_max_timestamp(
        self, topic: Topic, partition: int, offsets: range
    ) -> TimestampedOffset | None:
        """The first row of these offsets, or after them, that has the newest time."""
        question = Question.newest(topic, partition, offsets)
        with self.figures.answering("the newest time"):
            return place_from_body((await self._ask(question)).body)

    async def about(self, topic: Topic) -> TableFacts:
        """The files and the newest snapshots of the topic's table, about a second old at most.

        Raises `Unavailable` when there is no table yet, or the catalog does not answer.
        """
        with self.figures.answering("about"):
            return TableFacts.from_body((await self._ask(Question.about(topic))).body)

    async def close(self) -> None:
        """End the process, if there is one."""
        self._closed = True
        if self._opening is not None:
            with suppress(LakestreamError, OSError):
                (await self._opening).close()
        if self._process is not None:
            await asyncio.to_thread(_end, self._process)

    async def _ask(self, question: Question, within_s: float | None = None) -> Answer:
        body = question.to_body()
        try:
            async with asyncio.timeout(self._answer_within_s if within_s is None else within_s):
                answer = await self._answer(body)
        except TimeoutError:
            self._end_if_silent()
            raise Unavailable(
                "the table was not read in time", topic=question.topic, partition=question.partition
            ) from None
        if answer.kind is Kind.ERROR:
            raise error_from_body(answer.body)
        return answer

    def _end_if_silent(self) -> None:
        """A process whose interpreter is dead makes room for another; a busy one is left alone."""
        opening = self._opening
        if opening is None or not opening.done() or opening.exception() or self._process is None:
            return
        link = opening.result()
        if not link.lost and link.silent_s >= _SILENT_SHARE * self._answer_within_s:
            event(_log, logging.ERROR, "the process that reads tables is stuck and is ended")
            self._process.kill()

    async def _answer(self, body: bytes) -> Answer:
        for _ in range(_TRIES):
            link = await self._link()
            try:
                answer = await link.ask(body)
            except ReaderGone:
                continue
            self._ended_early = 0
            return answer
        raise Unavailable("the process that reads tables ended while it read; it is started again")

    async def _link(self) -> Link:
        """The link to a process that runs; all who need a new one share its start."""
        opening = self._opening
        if opening is None or (opening.done() and (opening.exception() or opening.result().lost)):
            self._check_pace()
            opening = self._opening = asyncio.create_task(self._open(), name="open-history")
        # One reader that gives up must not take the others' process away.
        return await asyncio.shield(opening)

    def _check_pace(self) -> None:
        """A process that dies again and again is not started again and again."""
        if self._closed:
            raise Unavailable("the broker stops")
        now = asyncio.get_running_loop().time()
        if now < self._not_before:
            raise Unavailable("the process that reads tables has just ended and starts soon")
        pause_s = min(0.1 * 2**self._ended_early, _LONGEST_PAUSE_S) if self._ended_early else 0.0
        self._not_before = now + pause_s
        self._ended_early += 1

    async def _open(self) -> Link:
        loop = asyncio.get_running_loop()
        self._first_looks.forget()
        if self._process is not None:
            code = await asyncio.to_thread(_end, self._process)
            event(_log, logging.WARNING, "the process that reads tables ended", code=code)
        try:
            self._process, ours = await asyncio.to_thread(_started)
            _, link = await loop.create_unix_connection(
                lambda: Link(self.figures.tallied), sock=ours
            )
        except OSError as error:
            sentence = f"the process that reads tables cannot be started: {error}"
            raise Unavailable(sentence) from error
        link.tell(Kind.START, self._start.to_body())
        self.figures.starts.add()
        return link


def _started() -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """A process, and our end of the socket that is its standard input.

    It is in no group of ours, so that Ctrl-C is the broker's to handle.
    """
    ours, theirs = socket.socketpair()
    with theirs, ExitStack() as stack:
        stack.callback(ours.close)
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        ours.setblocking(False)
        process = subprocess.Popen(
            _COMMAND, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
        )
        stack.pop_all()
    return process, ours


def _end(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a process whose socket is closed; one that is stuck is killed."""
    try:
        return process.wait(_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
