"""Stock Kafka clients for tests, and what they got."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

HeaderList = Sequence[tuple[str, bytes | None]]


class Received(NamedTuple):
    """Everything a consumer can see of a record."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: Any


class Sent(NamedTuple):
    """A record about to be sent."""

    key: bytes | None
    value: bytes | None
    headers: HeaderList = ()
    timestamp_ms: int = 1_700_000_000_123


def produce(bootstrap: str, topic: str, records: Sequence[Sent], **config: Any) -> list[int]:
    """Send the records one after the other and return their offsets, all acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **config})
    delivered: list[Any] = []
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
            partition=0,
            on_delivery=lambda error, message: delivered.append((error, message)),
        )
    assert producer.flush(120) == 0
    for error, _ in delivered:
        if error is not None:
            raise KafkaException(error)
    return [message.offset() for _, message in delivered]


def consume(
    bootstrap: str, topic: str, *, offset: int, count: int, within_s: float = 90.0
) -> list[Received]:
    """The next `count` records of partition 0 from `offset` on, without a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        messages = consumer.consume(count, within_s)
    finally:
        consumer.close()
    for message in messages:
        if message.error():
            raise KafkaException(message.error())
    return [
        Received(
            message.offset() or 0,
            message.timestamp(),
            message.key(),
            message.value(),
            message.headers() or [],
        )
        for message in messages
    ]
