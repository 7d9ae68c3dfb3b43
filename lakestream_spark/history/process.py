"""The reader process of a broker: `python -m lakestream_spark.history.process`.

Its standard input is the socket that its broker asks on. What always holds: it runs with a lower
priority than the broker, so that a replay takes what the others leave; it ends when the socket
does, also when the broker was killed; no question of a broker is answered twice.
"""

import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from lakestream_spark.core.collector import spare_the_collector
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.history.messages import (
    HEAD,
    Kind,
    Question,
    Start,
    What,
    error_to_body,
    place_to_body,
)
from lakestream_spark.history.reader import TableReader

_NICE: Final = 10
_MIN_THREADS: Final = 4
"""More than cores: some of them wait for a store."""


class Server:
    """Answers the questions of one socket until it ends."""

    def __init__(self, sock: socket.socket, reader: TableReader) -> None:
        self._sock = sock
        self._reader = reader
        self._sending = threading.Lock()

    def run(self) -> None:
        threads = max(_MIN_THREADS, os.cpu_count() or 1)
        pool = ThreadPoolExecutor(threads, thread_name_prefix="history")
        while (frame := receive(self._sock)) is not None:
            number, body = frame
            pool.submit(self._answer, number, Question.from_body(body))

    def _answer(self, number: int, question: Question) -> None:
        try:
            kind, body = self._answered(question)
        except LakestreamError as error:
            kind, body = Kind.ERROR, error_to_body(error)
        except Exception as error:
            # A defect of ours: the broker says it, and the client gets an error it knows.
            told = LakestreamError(f"reading the table failed: {error!r}", topic=question.topic)
            kind, body = Kind.ERROR, error_to_body(told)
        with self._sending:
            self._sock.sendall(HEAD.pack(len(body), number, kind))
            self._sock.sendall(body)

    def _answered(self, question: Question) -> tuple[Kind, bytes]:
        match question.what:
            case What.READ:
                return Kind.DATA, self._reader.read(question)
            case What.AT_TIME:
                return Kind.PLACE, place_to_body(self._reader.at_time(question))
            case What.NEWEST:
                return Kind.PLACE, place_to_body(self._reader.newest(question))


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


def main() -> None:
    # The broker decides when to stop, and the end of its socket tells us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(_NICE)
    # A read is decoded in its own thread; several of them share the cores.
    pa.set_cpu_count(1)
    spare_the_collector()
    sock = socket.socket(fileno=sys.stdin.fileno())
    frame = receive(sock)
    if frame is not None:
        start = Start.from_body(frame[1])
        Server(sock, TableReader(start.spec, start.memory_bytes)).run()
    # Threads may still read for a broker that is gone.
    os._exit(0)


if __name__ == "__main__":
    main()
