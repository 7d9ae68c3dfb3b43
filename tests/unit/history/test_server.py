"""Questions over a socket: those about one table do not wait for a long look at another."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakestream_spark.core.errors import LakestreamError, Unavailable
from lakestream_spark.history.messages import HEAD, Kind, Question, error_from_body
from lakestream_spark.history.reader import TableReader
from lakestream_spark.history.sender import Sender
from lakestream_spark.history.server import Server
from lakestream_spark.history.turns import Turns
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.history import MEMORY, PLENTY, append_rows, records_in
from tests.support.tables import TableFiles, rows

WORKING, THREADS = 2, 12


class Asker:
    """The broker's end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def ask(self, number: int, topic: Topic) -> None:
        body = Question.read(topic, 0, 0, PLENTY).to_body()
        self._sock.sendall(HEAD.pack(len(body), number, Kind.QUESTION) + body)

    def answer(self) -> tuple[int, bytes | LakestreamError]:
        """The next one, with the number of its question."""
        while True:
            size, number, kind = HEAD.unpack(self._exactly(HEAD.size))
            body = self._exactly(size)
            if kind == Kind.ERROR:
                return number, error_from_body(body)
            if kind == Kind.DATA:
                return number, body

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += self._sock.recv(size - len(found))
        return found


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    turns = Turns(working=WORKING, threads=THREADS)
    reader = TableReader(catalog_spec(tmp_path), MEMORY, patience_s=60, wait=turns.ended)
    with closing(theirs), closing(reader):
        server = Server(theirs, Sender(theirs), reader, turns)
        running = threading.Thread(target=server.run)
        running.start()
        with closing(ours):
            yield Asker(ours)
            ours.shutdown(socket.SHUT_WR)
            running.join()


@pytest.fixture
async def other(metadata: Metadata) -> Topic:
    return await metadata.topics.create("others")


@pytest.fixture
def held_up(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Looks at the topic's table last until this is called."""
    goes_on = threading.Event()
    load = StreamCatalog.load_lawful

    def held(catalog: StreamCatalog, layout: Any) -> Table | None:
        assert layout.topic_id != topic.id or goes_on.wait(60)
        return load(catalog, layout)

    monkeypatch.setattr(StreamCatalog, "load_lawful", held)
    yield goes_on.set
    goes_on.set()


@pytest.fixture
def two_tables(tmp_path: Path, tables: StreamCatalog, topic: Topic, other: Topic) -> None:
    for each in (topic, other):
        files = TableFiles.of(tmp_path, tables, each)
        append_rows(tables, files, rows(0, [each.name.encode()]), start=0, end=1)


def value_in(answer: bytes | LakestreamError) -> bytes | None:
    assert isinstance(answer, bytes), answer
    return records_in(answer)[0].value


@pytest.mark.usefixtures("two_tables")
def test_a_long_look_at_one_table_keeps_nobody_from_reading_another(
    asker: Asker, topic: Topic, other: Topic, held_up: Callable[[], None]
) -> None:
    waiting = range(1, 2 * WORKING + 1)
    for number in waiting:
        asker.ask(number, topic)
    asker.ask(100, other)
    number, answer = asker.answer()
    assert (number, value_in(answer)) == (100, b"others")
    held_up()
    answers = dict(asker.answer() for _ in waiting)
    assert sorted(answers) == list(waiting)
    assert {value_in(each) for each in answers.values()} == {b"orders"}


@pytest.mark.usefixtures("two_tables")
def test_who_comes_when_many_wait_for_looks_is_told_at_once(
    asker: Asker, topic: Topic, other: Topic, held_up: Callable[[], None]
) -> None:
    for number in range(THREADS):
        asker.ask(number, topic)
    for _ in range(THREADS // 2):
        _, answer = asker.answer()
        assert isinstance(answer, Unavailable)
    asker.ask(100, other)
    assert asker.answer()[0] == 100
    held_up()
    for _ in range(THREADS // 2):
        assert value_in(asker.answer()[1]) == b"orders"
