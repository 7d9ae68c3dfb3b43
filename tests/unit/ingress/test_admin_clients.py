"""Administration through the admin clients that people use."""

from asyncio import to_thread
from importlib import import_module
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition

from lakestream_spark.app import RunningBroker
from tests.support.kafka import Sent, produce

WAIT_S = 20
# Not by name: neither package tells type checkers what it exports.
confluent: Any = import_module("confluent_kafka.admin")


def only(futures: dict[Any, Any]) -> Any:
    """What the single future of an admin call gives."""
    (future,) = futures.values()
    return future.result(WAIT_S)


def shown(admin: Any, kind: Any, name: str) -> dict[str, Any]:
    entries = only(admin.describe_configs([confluent.ConfigResource(kind, name)]))
    return {key: entry.value for key, entry in entries.items()}


def _confluent(bootstrap: str) -> None:
    admin = confluent.AdminClient({"bootstrap.servers": bootstrap})
    only(admin.create_topics([confluent.NewTopic("orders", 2, 3, config={"retention.ms": "5"})]))
    with pytest.raises(KafkaException, match="exists already"):
        only(admin.create_topics([confluent.NewTopic("orders", 1, 1)]))
    with pytest.raises(KafkaException, match="did you mean 'retention"):
        only(admin.create_topics([confluent.NewTopic("b", 1, 1, config={"retention.sm": "5"})]))
    only(admin.create_partitions([confluent.NewPartitions("orders", 4)]))
    described = only(admin.describe_topics(TopicCollection(["orders"])))
    assert len(described.partitions) == 4

    append = confluent.AlterConfigOpType.APPEND
    change = confluent.ConfigEntry("cleanup.policy", "compact", incremental_operation=append)
    resource = confluent.ConfigResource(
        confluent.ResourceType.TOPIC, "orders", incremental_configs=[change]
    )
    only(admin.incremental_alter_configs([resource]))
    values = shown(admin, confluent.ResourceType.TOPIC, "orders")
    assert (values["cleanup.policy"], values["retention.ms"]) == ("delete,compact", "5")
    assert shown(admin, confluent.ResourceType.BROKER, "1")["num.partitions"] == "1"

    produce(bootstrap, "orders", [Sent(b"k", b"v")] * 3)
    deleted = only(admin.delete_records([TopicPartition("orders", 0, 2)]))
    assert deleted.low_watermark == 2
    cluster = admin.describe_cluster().result(WAIT_S)
    assert [node.id for node in cluster.nodes] == [1]
    only(admin.delete_topics(["orders"]))
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        only(admin.delete_topics(["orders"]))


async def test_confluent_admin_client_administers_topics(lake: RunningBroker) -> None:
    await to_thread(_confluent, lake.bootstrap)
    assert await lake.metadata.topics.list() == []


def _kafka_python(bootstrap: str) -> None:
    package: Any = import_module("kafka.admin")
    errors: Any = import_module("kafka.errors")
    topic, resource = package.NewTopic, package.ConfigResource
    admin = package.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        config = {"lakestream.profile": "latency"}
        admin.create_topics([topic("orders", 2, 1, topic_configs=config)])
        with pytest.raises(errors.TopicAlreadyExistsError):
            admin.create_topics([topic("orders", 2, 1)])
        with pytest.raises(errors.InvalidConfigurationError):
            admin.create_topics([topic("b", 2, 1, topic_configs={"retention.ms": "x"})])
        admin.create_partitions({"orders": 3})
        (described,) = admin.describe_topics(["orders"])
        assert len(described["partitions"]) == 3
        admin.alter_configs([resource("TOPIC", "orders", configs={"retention.ms": "7"})])
        modified = admin.describe_configs([resource("TOPIC", "orders")])
        assert "retention.ms" in str(modified)
        assert "latency" in str(modified)
        produce(bootstrap, "orders", [Sent(b"k", b"v")] * 3)
        assert admin.delete_records({import_module("kafka.structs").TopicPartition("orders", 0): 1})
        assert len(admin.describe_cluster()["brokers"]) == 1
        assert "orders" in str(admin.describe_log_dirs())
        admin.delete_topics(["orders"])
    finally:
        admin.close()


@pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated")
async def test_kafka_python_admin_client_administers_topics(lake: RunningBroker) -> None:
    await to_thread(_kafka_python, lake.bootstrap)
    assert await lake.metadata.topics.list() == []
