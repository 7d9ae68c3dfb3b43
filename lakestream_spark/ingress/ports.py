"""What handlers ask of the log, declared here because they are the callers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kio.schema.errors import ErrorCode

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import ProducerId, TopicId, TopicPartition
from lakestream_spark.groups.messages import (
    Caller,
    GroupDescription,
    Join,
    Joined,
    Left,
    Sync,
    Synced,
)
from lakestream_spark.kafka.batch import CheckedBatch
from lakestream_spark.kafka.pieces import Piece
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.brokers import Node
from lakestream_spark.metadata.group_offsets import Committed
from lakestream_spark.metadata.topics import ConfigChange, Topic
from lakestream_spark.wal.reader import ReadRequest, ReadResult
from lakestream_spark.wal.receipt import BatchAnswer


class Topics(Protocol):
    """Live topics; both lookups raise `UnknownTopic`."""

    async def get(self, name: str) -> Topic: ...

    async def get_by_id(self, topic_id: TopicId) -> Topic: ...

    async def list(self) -> list[Topic]: ...

    async def create(self, name: str, *, partitions: int = 1) -> Topic: ...


class TopicAdmin(Topics, Protocol):
    """Topics as they are stored now, and what changes and measures them."""

    async def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> Topic: ...

    async def delete(self, topic_id: TopicId) -> None: ...

    async def add_partitions(self, topic_id: TopicId, total: int) -> Topic: ...

    async def change_config(
        self, topic_id: TopicId, change: ConfigChange, *, validate_only: bool = False
    ) -> Topic: ...

    async def wal_bytes(self, topic_ids: Sequence[TopicId]) -> dict[TopicPartition, int]: ...


class RecordDeleter(Protocol):
    """Moves log starts."""

    async def delete_records(self, partition: TopicPartition, before_offset: int) -> int: ...


class Appender(Protocol):
    """The WAL writer of one profile."""

    async def append(
        self, partition: TopicPartition, batches: list[CheckedBatch]
    ) -> list[BatchAnswer]: ...


class TailReader(Protocol):
    """The part of a partition that is still in the WAL."""

    async def read_many(
        self, requests: Sequence[ReadRequest], *, max_total_bytes: int | None = None
    ) -> list[ReadResult | LakestreamError]: ...

    async def offset_for_timestamp(
        self, partition: TopicPartition, timestamp_ms: int
    ) -> TimestampedOffset | None: ...

    async def offset_of_max_timestamp(
        self, partition: TopicPartition
    ) -> TimestampedOffset | None: ...


class HistoryReader(Protocol):
    """The part of a partition that is in the table; `offsets` are those that must be."""

    async def read(self, topic: Topic, partition: int, offset: int, max_bytes: int) -> Piece: ...

    async def offset_for_timestamp(
        self, topic: Topic, partition: int, timestamp_ms: int, offsets: range
    ) -> TimestampedOffset | None: ...

    async def offset_of_max_timestamp(
        self, topic: Topic, partition: int, offsets: range
    ) -> TimestampedOffset | None: ...


class ProducerIds(Protocol):
    """Ids for idempotent producers, never handed out twice."""

    async def allocate(self) -> ProducerId: ...


class Cluster(Protocol):
    """The live brokers, answered from memory; the order is by node id."""

    @property
    def me(self) -> Node: ...

    def brokers(self) -> tuple[Node, ...]: ...

    def leader(self, partition: TopicPartition, rack: str | None = None) -> Node: ...


class CommittedOffsets(Protocol):
    """How far groups have come; an error code alone is for the whole request."""

    async def commit(
        self,
        group_id: str,
        caller: Caller,
        offsets: Sequence[Committed],
        retention_ms: int | None = None,
    ) -> Mapping[TopicPartition, ErrorCode] | ErrorCode: ...

    async def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed] | ErrorCode: ...

    async def fetch_all(self, group_id: str) -> Sequence[tuple[str, Committed]] | ErrorCode: ...

    async def delete(
        self, group_id: str, wanted: Sequence[tuple[str, TopicPartition]]
    ) -> Mapping[TopicPartition, ErrorCode] | ErrorCode: ...


class Groups(Protocol):
    """The group coordinator of this broker; errors are values in its answers."""

    @property
    def offsets(self) -> CommittedOffsets: ...

    async def coordinator(self, group_id: str) -> Node | None: ...

    async def join(self, group_id: str, asked: Join) -> Joined: ...

    async def sync(self, group_id: str, asked: Sync) -> Synced: ...

    def heartbeat(self, group_id: str, caller: Caller) -> ErrorCode: ...

    def leave(self, group_id: str, leaving: Sequence[Caller]) -> Sequence[Left] | ErrorCode: ...

    def describe(self, group_id: str) -> GroupDescription: ...

    def list(self) -> Sequence[GroupDescription]: ...

    async def delete(self, group_id: str) -> ErrorCode: ...
