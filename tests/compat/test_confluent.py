"""confluent-kafka (librdkafka): producing, consuming and administration."""

import threading
import time
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)

from tests.compat.clusters import Cluster, differs, unique
from tests.compat.confluent_admin import (
    WITHIN_S,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    create_topic,
    partitions_of,
    until,
)
from tests.support.kafka import Sent, consume, produce

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    return make_topic(admin)


def make_topic(admin: AdminClient, partitions: int = 1, **config: str) -> str:
    name = unique("confluent")
    named = {key.replace("_", "."): value for key, value in config.items()}
    create_topic(admin, name, partitions, named)
    return name


def reader(cluster: Cluster, **config: Any) -> Consumer:
    """A consumer that uses no group."""
    base = {"bootstrap.servers": cluster.bootstrap, "group.id": "unused"}
    return Consumer({**base, "enable.auto.commit": False, **config})


def done(futures: dict[Any, Any]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(WITHIN_S)


def refusal(futures: dict[Any, Any]) -> str:
    """The name of the error of the only future."""
    with pytest.raises(KafkaException) as raised:
        done(futures)
    return str(raised.value.args[0].name())


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back_whole(cluster: Cluster, topic: str, codec: str) -> None:
    sent = [Sent(str(n).encode(), bytes(500) + str(n).encode()) for n in range(200)]
    offsets = produce(
        cluster.bootstrap, topic, sent, **{"compression.type": codec, "linger.ms": 20}
    )
    assert offsets == list(range(200))
    got = consume(cluster.bootstrap, topic, offset=0, count=200)
    assert [(each.key, each.value) for each in got] == [(s.key, s.value) for s in sent]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(cluster: Cluster, topic: str, acks: str) -> None:
    produce(cluster.bootstrap, topic, [Sent(None, b"x")] * 10, acks=acks)
    got = consume(cluster.bootstrap, topic, offset=0, count=10)
    assert [each.offset for each in got] == list(range(10))


def test_an_idempotent_producer_keeps_the_order_with_five_requests_in_flight(
    cluster: Cluster, topic: str
) -> None:
    config = {"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 10}
    sent = [Sent(None, str(n).encode()) for n in range(1000)]
    assert produce(cluster.bootstrap, topic, sent, **config) == list(range(1000))
    got = consume(cluster.bootstrap, topic, offset=0, count=1000)
    assert [each.value for each in got] == [each.value for each in sent]


def test_null_and_empty_keys_values_and_headers_stay_apart(cluster: Cluster, topic: str) -> None:
    headers = [("null", None), ("empty", b""), ("twice", b"1"), ("twice", b"2"), ("ü", b"\xff")]
    sent = [Sent(None, None), Sent(b"", b""), Sent(b"k", None, headers), Sent(None, b"v")]
    produce(cluster.bootstrap, topic, sent)
    got = consume(cluster.bootstrap, topic, offset=0, count=4)
    assert [(each.key, each.value) for each in got] == [(s.key, s.value) for s in sent]
    assert got[2].headers == headers
    assert got[3].headers == []


def test_create_time_is_the_producers(cluster: Cluster, topic: str) -> None:
    produce(cluster.bootstrap, topic, [Sent(None, b"x", timestamp_ms=1_234_567_890_123)])
    (got,) = consume(cluster.bootstrap, topic, offset=0, count=1)
    assert got.timestamp == (TIMESTAMP_CREATE_TIME, 1_234_567_890_123)


def test_append_time_is_the_brokers(cluster: Cluster, admin: AdminClient) -> None:
    topic = make_topic(admin, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    produce(cluster.bootstrap, topic, [Sent(None, b"x", timestamp_ms=1_234_567_890_123)])
    (got,) = consume(cluster.bootstrap, topic, offset=0, count=1)
    kind, at = got.timestamp
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before - 1000 <= at <= int(time.time() * 1000) + 1000


def test_a_record_above_the_limit_is_refused(cluster: Cluster, admin: AdminClient) -> None:
    topic = make_topic(admin, max_message_bytes="1000")
    with pytest.raises(KafkaException) as raised:
        produce(cluster.bootstrap, topic, [Sent(None, bytes(2000))])
    assert raised.value.args[0].name() == "MSG_SIZE_TOO_LARGE"
    assert produce(cluster.bootstrap, topic, [Sent(None, bytes(500))]) == [0]


def test_a_topic_is_made_when_a_producer_writes_to_it(cluster: Cluster) -> None:
    topic = unique("auto")
    assert produce(cluster.bootstrap, topic, [Sent(None, b"x")]) == [0]


def test_a_consumer_does_not_make_a_topic(cluster: Cluster, admin: AdminClient) -> None:
    topic = unique("absent")
    consumer = reader(cluster)
    listed = consumer.list_topics(topic, WITHIN_S)
    consumer.close()
    assert listed.topics[topic].error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=WITHIN_S).topics


def test_offsets_are_found_by_time(cluster: Cluster, topic: str) -> None:
    times = [1_000_000, 2_000_000, 3_000_000]
    for time_ms in times:
        produce(cluster.bootstrap, topic, [Sent(None, b"x", timestamp_ms=time_ms)] * 3)
    consumer = reader(cluster)

    def at(time_ms: int) -> int:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], WITHIN_S)
        return int(found.offset)

    found = [at(time_ms) for time_ms in (0, 1_000_000, 1_500_000, 3_000_000, 4_000_000)]
    watermarks = consumer.get_watermark_offsets(TopicPartition(topic, 0), WITHIN_S)
    consumer.close()
    assert found == [0, 0, 3, 6, -1]
    assert watermarks == (0, 9)


def test_an_offset_out_of_range_is_an_error_or_a_reset(cluster: Cluster, topic: str) -> None:
    produce(cluster.bootstrap, topic, [Sent(None, b"x")] * 3)
    with pytest.raises(KafkaException) as raised:
        consume(cluster.bootstrap, topic, offset=77, count=1)
    assert raised.value.args[0].name() == "_AUTO_OFFSET_RESET"
    consumer = reader(cluster, **{"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 77)])
    message = consumer.poll(WITHIN_S)
    consumer.close()
    assert message is not None
    assert message.offset() == 0


def test_a_consumer_at_the_end_is_woken_by_the_next_record(cluster: Cluster, topic: str) -> None:
    # The fetch waits longer than the consumer does: only a wake brings the record in time.
    consumer = reader(cluster, **{"fetch.wait.max.ms": 200_000, "socket.timeout.ms": 250_000})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    got: list[Message | None] = []
    waiting = threading.Thread(target=lambda: got.append(consumer.poll(WITHIN_S)))
    waiting.start()
    time.sleep(1.0)
    produce(cluster.bootstrap, topic, [Sent(None, b"x")])
    waiting.join()
    consumer.close()
    assert got[0] is not None
    assert got[0].value() == b"x"


def test_a_transactional_producer_is_refused_in_clear_words(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": unique("tx")})
    try:
        producer.init_transactions(WITHIN_S)
        outcome = "accepted"
    except KafkaException as error:
        outcome = error.args[0].name()
    expected = differs(
        "transactions",
        lakestream="TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        kafka="accepted",
    )
    assert outcome == expected.on(cluster)


def test_topics_are_listed_described_grown_and_deleted(
    cluster: Cluster, admin: AdminClient
) -> None:
    topic = make_topic(admin, partitions=2)
    listed = admin.list_topics(topic, timeout=WITHIN_S)
    assert set(listed.topics[topic].partitions) == {0, 1}
    assert set(listed.brokers) == {1}
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    until(lambda: partitions_of(admin, topic) == {0, 1, 2, 3})
    assert refusal(admin.create_partitions([NewPartitions(topic, 3)])) == "INVALID_PARTITIONS"
    described = done(admin.describe_topics(TopicCollection([topic])))
    assert [len(each.replicas) for each in described.partitions] == [1, 1, 1, 1]
    done(admin.delete_topics([topic]))
    until(lambda: topic not in admin.list_topics(timeout=WITHIN_S).topics)
    assert refusal(admin.delete_topics([topic])) == "UNKNOWN_TOPIC_OR_PART"


def test_a_topic_with_three_copies(cluster: Cluster, admin: AdminClient) -> None:
    name = unique("copies")
    made = admin.create_topics([NewTopic(name, 1, 3)])
    try:
        done(made)
        outcome = "made"
    except KafkaException as error:
        outcome = error.args[0].name()
    expected = differs("replication-factor", lakestream="made", kafka="INVALID_REPLICATION_FACTOR")
    assert outcome == expected.on(cluster)


def test_the_same_topic_is_not_made_twice(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)])) == "TOPIC_ALREADY_EXISTS"


def test_settings_are_described_and_changed(
    cluster: Cluster, admin: AdminClient, topic: str
) -> None:
    change = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    wrong = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)

    def resource(*entries: ConfigEntry) -> ConfigResource:
        return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=list(entries))

    done(admin.incremental_alter_configs([resource(change)]))
    assert refusal(admin.incremental_alter_configs([resource(wrong)])) == "INVALID_CONFIG"

    def described() -> Any:
        return done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))

    until(lambda: described()["retention.ms"].value == "3600000")
    settings = described()
    assert settings["retention.ms"].source == 1
    assert settings["cleanup.policy"].is_default


def test_records_are_deleted_and_offsets_listed(
    cluster: Cluster, admin: AdminClient, topic: str
) -> None:
    produce(cluster.bootstrap, topic, [Sent(None, b"x")] * 10)
    deleted = done(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    partition = TopicPartition(topic, 0)
    earliest, latest = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
    for spec, offset in ((earliest, 4), (latest, 10)):
        assert done(admin.list_offsets({partition: spec})).offset == offset
    got = consume(cluster.bootstrap, topic, offset=4, count=6)
    assert [each.offset for each in got] == list(range(4, 10))


def test_the_cluster_describes_itself(cluster: Cluster, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(WITHIN_S)
    assert [node.id for node in described.nodes] == [1]
    assert described.controller.id == 1
