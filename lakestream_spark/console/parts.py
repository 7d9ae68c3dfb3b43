"""What the page asks of a broker, declared here because the page is the caller."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.history.about import TableFacts
from lakestream_spark.kafka.pieces import Piece
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.wal.reader import ReadRequest, ReadResult


class Tail(Protocol):
    """The part of a partition that is still in the WAL."""

    async def read_many(
        self, requests: Sequence[ReadRequest]
    ) -> list[ReadResult | LakestreamError]: ...


class History(Protocol):
    """The part of a partition that is in the table, and the table itself."""

    async def read(self, topic: Topic, partition: int, offset: int, max_bytes: int) -> Piece: ...

    async def about(self, topic: Topic) -> TableFacts: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A broker that serves, as the page sees it."""

    node_id: int
    metadata: Metadata
    tail: Tail
    history: History
    live_nodes: Callable[[], Collection[int]]
    """The ids of the brokers that live, as far as this one knows."""
    clock: Clock
