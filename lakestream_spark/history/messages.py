"""What a broker and its reader process say to each other over a socket, frame by frame.

    frame   size u32 | number u64 | kind u8 | body

The first frame is the reader's `Start`. Each further one from the broker is a question, and each
from the reader the answer to the question of the same number; answers come in any order. Before
each of them the reader says what it counted, and every second that it is alive.
"""

import json
import struct
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Final, Self
from uuid import UUID

from lakestream_spark.core import errors
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicId
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.spec import CatalogSpec

HEAD: Final = struct.Struct(">IQB")


class Kind(IntEnum):
    """What the body of a frame is."""

    START = 0
    QUESTION = 1
    DATA = 2
    """Record batches."""
    PLACE = 3
    """An offset with its time, or null."""
    ERROR = 4
    ABOUT = 5
    """What there is to say of a table."""
    TALLY = 6
    """What the reader counted; it comes before an answer and answers nothing."""
    ALIVE = 7
    """The reader's interpreter runs, whatever it works on; it answers nothing."""


class What(IntEnum):
    """What a question asks for."""

    READ = 0
    AT_TIME = 1
    NEWEST = 2
    ABOUT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a reader process needs to know before the first question; it may hold secrets."""

    name: str
    warehouse: str
    properties: dict[str, str] = field(repr=False)
    memory_bytes: int

    @classmethod
    def of(cls, spec: CatalogSpec, memory_bytes: int) -> Self:
        return cls(
            name=spec.name,
            warehouse=spec.warehouse,
            properties=dict(spec.properties),
            memory_bytes=memory_bytes,
        )

    @property
    def spec(self) -> CatalogSpec:
        return CatalogSpec(name=self.name, warehouse=self.warehouse, properties=self.properties)

    def to_body(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_body(cls, body: bytes | bytearray) -> Self:
        return cls(**json.loads(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`limit` is the bytes of a read, or the time that is looked for; the answer is by a plan that
    has all offsets below `reach`."""

    what: What
    topic_id: TopicId
    topic: str
    config: dict[str, str]
    partition: int
    offset: int
    reach: int
    limit: int = 0

    @classmethod
    def read(cls, topic: Topic, partition: int, offset: int, max_bytes: int) -> Self:
        """Whole batches from the one with the offset on."""
        return cls._of(What.READ, topic, partition, range(offset, offset + 1), max_bytes)

    @classmethod
    def at_time(cls, topic: Topic, partition: int, timestamp_ms: int, offsets: range) -> Self:
        """The first of these offsets whose time is not before `timestamp_ms`."""
        return cls._of(What.AT_TIME, topic, partition, offsets, timestamp_ms)

    @classmethod
    def newest(cls, topic: Topic, partition: int, offsets: range) -> Self:
        """The first of these offsets that has the newest time."""
        return cls._of(What.NEWEST, topic, partition, offsets)

    @classmethod
    def about(cls, topic: Topic) -> Self:
        """The files and snapshots of the table."""
        return cls._of(What.ABOUT, topic, 0, range(0))

    @classmethod
    def _of(cls, what: What, topic: Topic, partition: int, offsets: range, limit: int = 0) -> Self:
        return cls(
            what=what,
            topic_id=topic.id,
            topic=topic.name,
            config=dict(topic.config),
            partition=partition,
            offset=offsets.start,
            reach=offsets.stop,
            limit=limit,
        )

    def to_body(self) -> bytes:
        return json.dumps({**asdict(self), "topic_id": str(self.topic_id)}).encode()

    @classmethod
    def from_body(cls, body: bytes | bytearray) -> Self:
        fields: dict[str, Any] = json.loads(body)
        own = {"what": What(fields["what"]), "topic_id": TopicId(UUID(fields["topic_id"]))}
        return cls(**{**fields, **own})


def place_to_body(place: TimestampedOffset | None) -> bytes:
    return json.dumps(place).encode()


def place_from_body(body: bytes | bytearray) -> TimestampedOffset | None:
    fields = json.loads(body)
    return None if fields is None else TimestampedOffset(*fields)


def error_to_body(error: LakestreamError) -> bytes:
    facts = {name: str(fact) for name, fact in error.facts.items()}
    return json.dumps([type(error).__name__, error.message, facts]).encode()


def error_from_body(body: bytes | bytearray) -> LakestreamError:
    name, message, facts = json.loads(body)
    kind: type[LakestreamError] = getattr(errors, name)
    return kind(message, **facts)
