"""A new consumer group reads the topics from their beginning to where their tables end.

What always holds: the table ends are asked for before the first record is, so whatever lies below
them has left the WAL and comes out of Parquet; each offset must come once, in order, and a record
that this demo sent must be what it sent.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

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
        "log_level": 0,
    }
    expected = {partition: each.first for partition, each in wanted.items()}
    records = compared = 0
    with closing(Consumer(config)) as consumer:
        consumer.subscribe(sorted({topic for topic, _ in wanted}))
        for message in _messages(consumer, check):
            partition = (str(message.topic()), message.partition() or 0)
            offset = message.offset() or 0
            if partition in wanted and offset < wanted[partition].next:
                if offset != expected[partition]:
                    facts = {"expected": expected[partition], "actual": offset}
                    raise Corrupt(f"a replay of {partition[0]} left its order", **facts)
                expected[partition] = offset + 1
                records += 1
                compared += _is_known(message, digests)
            if all(expected[each] == wanted[each].next for each in wanted):
                break
        ends = [TopicPartition(name, number, end) for (name, number), end in expected.items()]
        consumer.commit(offsets=ends, asynchronous=False)
    first = min((each.first for each in wanted.values()), default=0)
    return Replayed(group, records, compared, first)


def _messages(consumer: Consumer, check: Callable[[], None]) -> Iterator[Message]:
    while True:
        check()
        for message in consumer.consume(_AT_ONCE, 0.2):
            error = message.error()
            if error is None:
                yield message
            elif error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                raise Rejected(f"the broker refuses to go on: {error.str()}")


def _is_known(message: Message, digests: Mapping[Place, bytes]) -> bool:
    place = Place(str(message.topic()), message.partition() or 0, message.offset() or 0)
    known = digests.get(place)
    if known is not None and known != digest(message.key(), message.value(), message.headers()):
        raise Corrupt("a record did not come back as it was sent", **place._asdict())
    return known is not None
