"""Groups of confluent-kafka (librdkafka) consumers: commits, rebalances, administration."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.compat.clusters import Cluster, unique
from tests.compat.confluent_admin import WITHIN_S, AdminClient, create_topic
from tests.support.kafka import Sent, produce

STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
CHANGING = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
)
"""How a commit is refused while the group changes; the record is read again."""


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = unique("groups")
    create_topic(admin, name, 4)
    return name


@pytest.fixture
def group() -> str:
    return unique("group")


@contextmanager
def member(cluster: Cluster, group: str, topic: str, **config: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 500,
            **config,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[bytes]:
    deadline = time.monotonic() + WITHIN_S
    values: list[bytes] = []
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count} records"
        for message in consumer.consume(count - len(values), 0.5):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    return values


def until(consumers: list[Consumer], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, [each.assignment() for each in consumers]
        for consumer in consumers:
            consumer.poll(0.05)


def owned(consumer: Consumer) -> set[int]:
    return {each.partition for each in consumer.assignment()}


def test_a_group_goes_on_from_what_it_committed(cluster: Cluster, topic: str, group: str) -> None:
    produce(cluster.bootstrap, topic, [Sent(None, str(n).encode()) for n in range(10)])
    with member(cluster, group, topic) as first:
        assert read(first, 4) == [b"0", b"1", b"2", b"3"]
        first.commit(offsets=[TopicPartition(topic, 0, 4, metadata="a note")], asynchronous=False)
        (kept,) = first.committed([TopicPartition(topic, 0)], WITHIN_S)
        assert (kept.offset, kept.metadata) == (4, "a note")
    with member(cluster, group, topic) as second:
        assert read(second, 6) == [str(n).encode() for n in range(4, 10)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_move_when_members_come_and_go(
    cluster: Cluster, topic: str, group: str, strategy: str
) -> None:
    config = {"partition.assignment.strategy": strategy}
    with member(cluster, group, topic, **config) as first:
        until([first], lambda: owned(first) == {0, 1, 2, 3})
        with member(cluster, group, topic, **config) as second:
            both = [first, second]
            until(both, lambda: len(owned(first)) == len(owned(second)) == 2)
            assert owned(first) | owned(second) == {0, 1, 2, 3}
        until([first], lambda: owned(first) == {0, 1, 2, 3})


def test_cooperative_members_keep_what_they_have(cluster: Cluster, topic: str, group: str) -> None:
    config = {"partition.assignment.strategy": "cooperative-sticky"}
    with member(cluster, group, topic, **config) as first:
        revoked: list[int] = []
        first.subscribe(
            [topic], on_revoke=lambda _, gone: revoked.extend(each.partition for each in gone)
        )
        until([first], lambda: owned(first) == {0, 1, 2, 3})
        with member(cluster, group, topic, **config) as second:
            until([first, second], lambda: len(owned(first)) == len(owned(second)) == 2)
            assert set(revoked) == owned(second)


def test_a_static_member_that_returns_causes_no_rebalance(
    cluster: Cluster, topic: str, group: str
) -> None:
    with member(cluster, group, topic, **{"group.instance.id": "one"}) as stays:
        with member(cluster, group, topic, **{"group.instance.id": "two"}) as leaves:
            until([stays, leaves], lambda: len(owned(stays)) == len(owned(leaves)) == 2)
            before = owned(leaves)
        with member(cluster, group, topic, **{"group.instance.id": "two"}) as returns:
            until([stays, returns], lambda: bool(owned(returns)))
            assert owned(returns) == before


def test_five_members_share_all_records(cluster: Cluster, topic: str, group: str) -> None:
    for partition in range(4):
        produce_to(cluster, topic, partition, 50)
    with ExitStack() as stack:
        members = [stack.enter_context(member(cluster, group, topic)) for _ in range(5)]
        values: list[bytes] = []

        def done() -> bool:
            for each in members:
                for message in each.consume(100, 0.05):
                    assert message.error() is None, message.error()
                    values.append(message.value() or b"")
                    commit(each, message)
            return len(set(values)) == 200

        deadline = time.monotonic() + WITHIN_S
        while not done():
            assert time.monotonic() < deadline, len(set(values))


def commit(consumer: Consumer, message: Message) -> None:
    try:
        consumer.commit(message=message, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in CHANGING:
            raise


def produce_to(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, f"{partition}-{number}".encode(), partition=partition)
    assert producer.flush(WITHIN_S) == 0


def test_a_group_is_listed_described_and_deleted(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
) -> None:
    with member(cluster, group, topic) as consumer:
        until([consumer], lambda: len(owned(consumer)) == 4)
        listed = admin.list_consumer_groups().result(WITHIN_S).valid
        assert group in {each.group_id for each in listed}
        described = admin.describe_consumer_groups([group])[group].result(WITHIN_S)
        assert described.state == ConsumerGroupState.STABLE
        assert described.partition_assignor == "range"
        (one,) = described.members
        assert {each.partition for each in one.assignment.topic_partitions} == {0, 1, 2, 3}
        assert one.host.lstrip("/") == "127.0.0.1"
        with pytest.raises(KafkaException) as raised:
            admin.delete_consumer_groups([group])[group].result(WITHIN_S)
        assert raised.value.args[0].name() == "NON_EMPTY_GROUP"
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    admin.delete_consumer_groups([group])[group].result(WITHIN_S)
    with pytest.raises(KafkaException) as raised:
        admin.delete_consumer_groups([group])[group].result(WITHIN_S)
    assert raised.value.args[0].name() == "GROUP_ID_NOT_FOUND"


def test_offsets_of_a_group_are_altered_from_outside(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
) -> None:
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 7)])
    admin.alter_consumer_group_offsets([wanted])[group].result(WITHIN_S)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    offsets = found[group].result(WITHIN_S).topic_partitions
    assert [(each.topic, each.partition, each.offset) for each in offsets] == [(topic, 1, 7)]


def test_a_member_that_does_not_poll_is_put_out(cluster: Cluster, topic: str, group: str) -> None:
    quick = {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}
    with member(cluster, group, topic, **quick) as sleeper, member(cluster, group, topic) as other:
        until([sleeper, other], lambda: len(owned(sleeper)) == len(owned(other)) == 2)
        until([other], lambda: owned(other) == {0, 1, 2, 3})
