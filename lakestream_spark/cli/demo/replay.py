"""A new consumer group reads the topics from their beginning to where their tables end.

What always holds: the table ends are asked for before the first record is, so whatever lies below
them has left the WAL and comes out of Parquet; offsets come in order, each at most once; what was
erased before leaves a hole, but a record that this demo sent must come, and be what it sent.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lakestream_spark.cli.arrivals import passes
from lakestream_spark.cli.asking import ask
from lakestream_spark.cli.demo.traffic import Place, digest
from lakestream_spark.core.errors import Corrupt, Rejected
from lakestream_spark.metadata import Metadata
from lakestream_spark.settings import Settings

Partition = tuple[str, int]
_MOST: Final = 50_000
"""Offsets of a partition: a long history is replayed in part."""
_AT_ONCE: Final = 1000


class Range(NamedTuple):
    """Offsets of a partition that are in its table."""

    first: int
    next: int


class Replayed(NamedTuple):
    """What came."""

    group: str
    records: int
    compared: int
    """Of them, those whose every byte is known from when they were sent."""
    first_offset: int


def in_tables(settings: Settings, topics: tuple[str, ...]) -> dict[Partition, Range]:
    """What the tables hold now; partitions that have nothing there are left out."""

    async def asked(metadata: Metadata) -> dict[Partition, Range]:
        found: dict[Partition, Range] = {}
        for name in topics:
            topic = await metadata.topics.get(name)
            for number, ends in (await metadata.tables.ends(topic.id)).items():
                held = Range(ends.log_start, min(ends.table_end, ends.log_start + _MOST))
                if held.first < held.next:
                    found[name, number] = held
        return found

    return ask(settings, asked)


def replay(
    bootstrap: str,
    wanted: Mapping[Partition, Range],
    digests: Mapping[Place, bytes],
    check: Callable[[], None],
) -> Replayed:
    """Read all that is wanted as a group that nobody has seen; raises `Corrupt` if it is wrong."""
    group = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        # What was erased just below the end of a partition is followed by nothing else.
        "enable.partition.eof": True,
        "log_level": 0,
    }
    course = Course(wanted, digests)
    with closing(Consumer(config)) as consumer:
        consumer.subscribe(sorted({topic for topic, _ in wanted}))
        for message in _messages(consumer, check):
            place = Place(str(message.topic()), message.partition() or 0, message.offset() or 0)
            if message.error() is None:
                course.take(place, digest(message.key(), message.value(), message.headers()))
            else:
                course.reach(place)
            if course.is_over:
                break
        ends = [TopicPartition(*partition, each.next) for partition, each in wanted.items()]
        consumer.commit(offsets=ends, asynchronous=False)
    first = min((each.first for each in wanted.values()), default=0)
    return Replayed(group, course.records, course.compared, first)


class Course:
    """How far a replay has come in each partition, and whether it came there lawfully."""

    def __init__(self, wanted: Mapping[Partition, Range], digests: Mapping[Place, bytes]) -> None:
        self._wanted = wanted
        self._digests = digests
        self._next = {partition: each.first for partition, each in wanted.items()}
        self.records = 0
        self.compared = 0

    @property
    def is_over(self) -> bool:
        return all(self._next[each] == self._wanted[each].next for each in self._wanted)

    def take(self, place: Place, found: bytes) -> None:
        """A record with this digest has come; raises `Corrupt` if it should not have."""
        self.reach(place)
        partition = (place.topic, place.partition)
        if partition not in self._wanted or place.offset >= self._wanted[partition].next:
            return
        known = self._digests.get(place)
        if known is not None and known != found:
            raise Corrupt("a record did not come back as it was sent", **place._asdict())
        self._next[partition] = place.offset + 1
        self.records += 1
        self.compared += known is not None

    def reach(self, place: Place) -> None:
        """Nothing comes before this place any more; raises `Corrupt` if something should have."""
        partition = (place.topic, place.partition)
        if partition not in self._wanted:
            return
        expected = self._next[partition]
        if place.offset < expected:
            facts = {"expected": expected, "actual": place.offset}
            raise Corrupt(f"a replay of {place.topic} left its order", **facts)
        self._next[partition] = min(place.offset, self._wanted[partition].next)
        for offset in range(expected, self._next[partition]):
            missed = place._replace(offset=offset)
            if missed in self._digests:
                raise Corrupt("a record that was sent did not come back", **missed._asdict())


def _messages(consumer: Consumer, check: Callable[[], None]) -> Iterator[Message]:
    """Records, and the ends of partitions as messages with that error."""
    while True:
        check()
        for message in consumer.consume(_AT_ONCE, 0.2):
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                yield message
            elif not passes(error):
                raise Rejected(f"the broker refuses to go on: {error.str()}")
