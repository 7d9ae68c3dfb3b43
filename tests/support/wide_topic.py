"""A topic of very many partitions, written and read by a stock client."""

from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_WITHIN_S: Final = 240.0


def create_wide(bootstrap: str, name: str, partitions: int) -> None:
    """The topic in the quick profile: the client sends a request for each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, partitions, 1, config={"lakestream.profile": "latency"})
    admin.create_topics([new], request_timeout=_WITHIN_S)[name].result()


def produce_to_each(bootstrap: str, topic: str, partitions: int) -> None:
    """One record with its partition's number to each partition, all acknowledged."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for index in range(partitions):
        producer.produce(topic, str(index).encode(), partition=index, on_delivery=delivered)
    assert producer.flush(_WITHIN_S) == 0
    assert not failed, failed[:3]


def consume_each(bootstrap: str, topic: str, partitions: int) -> dict[int, list[bytes | None]]:
    """The values of every partition from its start on, as many as there are partitions."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    found: dict[int, list[bytes | None]] = {}
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        left = partitions
        while left:
            messages = consumer.consume(left, _WITHIN_S)
            assert messages, f"{left} of {partitions} records did not come"
            for message in messages:
                assert message.error() is None, message.error()
                found.setdefault(message.partition() or 0, []).append(message.value())
            left -= len(messages)
    finally:
        consumer.close()
    return found
