"""What handlers may use: a value put together once by the process, never built by a handler."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import Rejected
from lakestream_spark.ingress.fetch_sessions import FetchSessions
from lakestream_spark.ingress.ports import (
    Appender,
    Cluster,
    Groups,
    HistoryReader,
    ProducerIds,
    RecordDeleter,
    TailReader,
    TopicAdmin,
    Topics,
)
from lakestream_spark.ingress.tail import TailWatch
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.wal.budget import ByteBudget
from lakestream_spark.wal.ports import ExtentIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How clients know and reach this broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    cluster_id: str = "lakestream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may ask for; the names of Kafka's own settings are in the comments."""

    max_request_bytes: int = 100 * 1024 * 1024  # socket.request.max.bytes
    max_message_bytes: int = 1024 * 1024 + 12  # message.max.bytes
    max_fetch_bytes: int = 55 * 1024 * 1024  # fetch.max.bytes
    max_control_bytes: int = 1024 * 1024
    """Of any request but Produce: a megabyte names tens of thousands of partitions."""
    max_requests_in_flight: int = 64
    max_inflight_bytes: int = 256 * 1024 * 1024
    """Of all connections together."""
    busy_timeout_s: float = 30.0
    auto_create_topics: bool = True  # auto.create.topics.enable
    default_partitions: int = 1  # num.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The parts of the log that a request touches."""

    topics: Topics
    writers: Mapping[str, Appender]
    index: ExtentIndex
    reader: TailReader
    history: HistoryReader
    producers: ProducerIds

    def writer_for(self, topic: Topic) -> Appender:
        """The writer of the topic's profile."""
        return self.writers[TopicConfig.of(topic.config).profile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """What administration touches. `topics` remembers nothing: who deletes a topic through one
    broker may make it again through the next. `log_dirs` are the WAL's URLs by profile."""

    topics: TopicAdmin
    records: RecordDeleter
    log_dirs: Mapping[str, str]
    changed: Callable[[Topic], None] = lambda _: None
    """Told of every topic that was made, changed or deleted here."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of this broker by Kafka's names, as they are shown; the others have defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker as its handlers see it."""

    address: Address
    cluster: Cluster
    log: Log
    admin: Admin
    tail: TailWatch
    """Wakes fetches that wait."""
    limits: Limits = field(default_factory=Limits)
    sessions: FetchSessions = field(default_factory=lambda: FetchSessions(Random()))
    clock: Clock = field(default_factory=SystemClock)
    inflight: ByteBudget = field(default_factory=lambda: ByteBudget(Limits().max_inflight_bytes))
    """Bytes of requests that were read and not answered yet, of all connections."""
    groups: Groups | None = None
    """The group coordinator; without one, clients are told that there is none available."""

    @property
    def coordinator(self) -> Groups:
        """The group coordinator; clients come here only after they were told that there is one."""
        if self.groups is None:
            raise Rejected("this broker coordinates no groups")
        return self.groups

    def max_message_bytes(self, topic: Topic) -> int:
        """The topic's own limit, or else this broker's."""
        own = TopicConfig.of(topic.config).max_message_bytes
        return self.limits.max_message_bytes if own is None else own
