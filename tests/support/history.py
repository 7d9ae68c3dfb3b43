"""Histories of tests, in this process or in one of their own, and what they give."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from lakestream_spark.history.messages import Question
from lakestream_spark.history.reader import TableReader
from lakestream_spark.history.remote import HistoryProcess
from lakestream_spark.kafka.batch import verify, walk
from lakestream_spark.kafka.pieces import Piece
from lakestream_spark.kafka.records import Record, TimestampedOffset, decode_records
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.rows import Row
from tests.support.embedded import catalog_spec
from tests.support.tables import TableFiles

MEMORY: Final = 64 * 1024 * 1024
PLENTY: Final = 1_000_000


class LocalHistory:
    """A `TableReader` that is asked in the words of a broker."""

    def __init__(self, reader: TableReader) -> None:
        self.reader = reader

    def read(self, topic: Topic, offset: int, max_bytes: int = PLENTY, partition: int = 0) -> bytes:
        return self.reader.read(Question.read(topic, partition, offset, max_bytes))

    def at_time(self, topic: Topic, timestamp_ms: int, offsets: range) -> TimestampedOffset | None:
        return self.reader.at_time(Question.at_time(topic, 0, timestamp_ms, offsets))

    def newest(self, topic: Topic, offsets: range) -> TimestampedOffset | None:
        return self.reader.newest(Question.newest(topic, 0, offsets))


@contextmanager
def local_history(folder: Path, memory_bytes: int = MEMORY) -> Iterator[LocalHistory]:
    reader = TableReader(catalog_spec(folder), memory_bytes)
    try:
        yield LocalHistory(reader)
    finally:
        reader.close()


@asynccontextmanager
async def history_process(
    folder: Path, *, memory_bytes: int = MEMORY, answer_within_s: float = 60.0
) -> AsyncIterator[HistoryProcess]:
    spec = catalog_spec(folder)
    history = HistoryProcess(spec, memory_bytes, answer_within_s=answer_within_s)
    try:
        yield history
    finally:
        await history.close()


def append_rows(
    tables: StreamCatalog, files: TableFiles, written: list[Row], *, start: int, end: int
) -> None:
    """One file with the rows, in a commit that moves the end of partition 0."""
    tables.append(
        files.layout,
        TableAppend(
            commit_id=uuid4(), starts={0: start}, ends={0: end}, files=[files.write(written)]
        ),
    )


def records_in(data: Piece) -> list[Record]:
    """The records of whole batches whose CRCs are right."""
    data = bytes(data)
    verify(data, where="test")
    return [
        record
        for position, header in walk(data, where="test")
        for record in decode_records(data[position : position + header.size], header)
    ]


def end_of(data: Piece) -> int:
    """The offset after the last one that the batches cover."""
    _, header = list(walk(bytes(data), where="test"))[-1]
    return header.base_offset + header.offsets
