"""kafka-python: producing, consuming, groups and administration."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.compat.clusters import Cluster, unique
from tests.compat.kafka_python import (
    PATIENT,
    WITHIN_S,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    TopicAlreadyExistsError,
    TopicPartition,
    sockets_it_forgets,
)

__all__ = ["sockets_it_forgets"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap, **PATIENT)) as client:
        yield client


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    name = unique("kafka-python")
    admin.create_topics([NewTopic(name, 2, 1)])
    deadline = time.monotonic() + WITHIN_S
    while name not in admin.list_topics():  # Kafka tells of it a moment later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return name


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_whole(cluster: Cluster, topic: str, codec: str | None) -> None:
    headers = [("empty", b""), ("x", b"1")]
    with closing(
        KafkaProducer(
            bootstrap_servers=cluster.bootstrap, acks="all", compression_type=codec, **PATIENT
        )
    ) as producer:
        sent = [
            producer.send(topic, str(n).encode(), b"key", headers, 0, 1_700_000_000_000 + n)
            for n in range(100)
        ]
        assert [each.get(WITHIN_S).offset for each in sent] == list(range(100))
    with closing(consumer_of(cluster)) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 10)
        got = [next(consumer) for _ in range(90)]
        assert [each.value for each in got] == [str(n).encode() for n in range(10, 100)]
        assert got[0].timestamp == 1_700_000_000_010
        assert list(got[0].headers) == headers
        found = consumer.offsets_for_times({partition: 1_700_000_000_050})
        assert found[partition].offset == 50
        assert consumer.end_offsets([partition]) == {partition: 100}


def consumer_of(cluster: Cluster, **config: object) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WITHIN_S * 1000,
        **PATIENT,
        **config,
    )


def test_an_idempotent_producer_is_served(cluster: Cluster, topic: str) -> None:
    with closing(
        KafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True, **PATIENT)
    ) as producer:
        sent = [producer.send(topic, str(n).encode(), partition=1) for n in range(200)]
        assert [each.get(WITHIN_S).offset for each in sent] == list(range(200))


def test_a_group_commits_and_goes_on(cluster: Cluster, topic: str) -> None:
    group = unique("kafka-python")
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, **PATIENT)) as producer:
        for number in range(10):
            producer.send(topic, str(number).encode(), partition=0).get(WITHIN_S)
    with closing(consumer_of(cluster, group_id=group, enable_auto_commit=False)) as consumer:
        consumer.subscribe([topic])
        assert [next(consumer).value for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        consumer.commit()
    with closing(consumer_of(cluster, group_id=group, enable_auto_commit=False)) as consumer:
        consumer.subscribe([topic])
        assert next(consumer).value == b"4"


def test_topics_are_administered(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    assert topic in admin.list_topics()
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 1, 1)])
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    admin.delete_topics([topic])
