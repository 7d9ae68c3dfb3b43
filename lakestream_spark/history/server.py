"""Answers the questions of one broker over a socket: many at once, each in a thread."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.history.messages import (
    HEAD,
    Kind,
    Question,
    What,
    error_to_body,
    place_to_body,
)
from lakestream_spark.history.reader import TableReader
from lakestream_spark.history.sender import Sender
from lakestream_spark.history.tally import Timed
from lakestream_spark.history.turns import Turns


class Server:
    """Answers the questions of one socket until it ends."""

    def __init__(
        self, sock: socket.socket, sender: Sender, reader: TableReader, turns: Turns
    ) -> None:
        self._sock = sock
        self._sender = sender
        self._reader = reader
        self._turns = turns

    def run(self) -> None:
        pool = ThreadPoolExecutor(self._turns.threads, thread_name_prefix="history")
        while (frame := receive(self._sock)) is not None:
            number, body = frame
            pool.submit(self._answer, number, Question.from_body(body), time.monotonic())

    def _answer(self, number: int, question: Question, came_at: float) -> None:
        with self._turns.taken():
            self._answer_now(number, question, came_at)

    def _answer_now(self, number: int, question: Question, came_at: float) -> None:
        tally = self._reader.tally
        tally.took(Timed.QUEUE, time.monotonic() - came_at)
        try:
            kind, body = self._answered(question)
        except LakestreamError as error:
            kind, body = Kind.ERROR, error_to_body(error)
        except Exception as error:
            # A defect of ours: the broker says it, and the client gets an error it knows.
            told = LakestreamError(f"reading the table failed: {error!r}", topic=question.topic)
            kind, body = Kind.ERROR, error_to_body(told)
        counted = tally.take(self._reader.kept_bytes).to_body()
        self._sender.send(counted, number, kind, body)

    def _answered(self, question: Question) -> tuple[Kind, bytes]:
        match question.what:
            case What.READ:
                return Kind.DATA, self._reader.read(question)
            case What.AT_TIME:
                return Kind.PLACE, place_to_body(self._reader.at_time(question))
            case What.NEWEST:
                return Kind.PLACE, place_to_body(self._reader.newest(question))
            case What.ABOUT:
                return Kind.ABOUT, self._reader.about(question).to_body()


def receive(sock: socket.socket) -> tuple[int, bytearray] | None:
    """The number and the body of the next frame; None when the other side has ended."""
    head = _exactly(sock, HEAD.size)
    if head is None:
        return None
    size, number, _ = HEAD.unpack(head)
    body = _exactly(sock, size)
    return None if body is None else (number, body)


def _exactly(sock: socket.socket, size: int) -> bytearray | None:
    found = bytearray(size)
    view = memoryview(found)
    while view:
        try:
            received = sock.recv_into(view)
        except ConnectionError:
            return None
        if received == 0:
            return None
        view = view[received:]
    return found
