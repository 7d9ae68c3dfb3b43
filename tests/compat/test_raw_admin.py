"""Administration of topics: both clusters refuse and accept the same."""

import asyncio
from typing import Any, Final

import pytest

from tests.compat.clusters import Cluster, differs, unique
from tests.compat.comparison import Comparisons
from tests.compat.peer import NOBODY, TIMEOUT, Peer, filled, plain

COMPARED: Final = Comparisons()

_TOPIC: Final = 2
_BROKER: Final = 4


async def create(peer: Peer, version: int = 7, validate_only: bool = False, **topic: Any) -> Any:
    api = peer.api(19, version)
    values = {
        "name": peer.topic,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": (),
        **topic,
        "configs": tuple(
            api.part("CreatableTopicConfig", name=name, value=value)
            for name, value in topic.get("configs", {}).items()
        ),
    }
    answer = await api.ask(
        "CreateTopicsRequest",
        timeout=TIMEOUT,
        validate_only=validate_only,
        topics=(api.part("CreatableTopic", **values),),
    )
    return plain(answer.topics[0], without=("configs", "topic_config_error_code"))


@COMPARED.add()
async def create_a_topic_in_every_version(peer: Peer) -> Any:
    return [
        await create(peer, version, name=f"{peer.topic}-{version}", num_partitions=3)
        for version in range(2, 8)
    ]


@COMPARED.add()
async def create_a_topic_twice(peer: Peer) -> Any:
    return [await create(peer) for _ in range(2)]


@COMPARED.add()
async def create_a_topic_with_the_brokers_defaults(peer: Peer) -> Any:
    return await create(peer, num_partitions=-1, replication_factor=-1)


@COMPARED.add()
async def create_topics_that_are_refused(peer: Peer) -> Any:
    return [
        await create(peer, num_partitions=0),
        await create(peer, num_partitions=-2),
        await create(peer, replication_factor=0),
        await create(peer, name=""),
        await create(peer, name="a/b"),
        await create(peer, name="."),
        await create(peer, name="x" * 250),
        await create(peer, configs={"no.such.setting": "1"}),
        await create(peer, configs={"max.message.bytes": "many"}),
        await create(peer, configs={"cleanup.policy": "keep"}),
        await create(peer, configs={"retention.ms": "-2"}),
        await create(peer, configs={"retention.ms": None}),
        await create(peer, configs={"message.timestamp.type": "Never"}),
        await create(peer, configs={"compression.type": "brotli"}),
        await create(peer, configs={"min.insync.replicas": "0"}),
    ]


@COMPARED.add(
    differs(
        "names-that-collide-as-metrics",
        lakestream=("none", "none"),
        kafka=("none", "invalid_topic_exception"),
    )
)
async def create_a_topic_whose_name_collides_with_another(peer: Peer) -> Any:
    first = await create(peer, name=f"{peer.topic}.a_b")
    return first["error_code"], (await create(peer, name=f"{peer.topic}_a.b"))["error_code"]


@COMPARED.add()
async def creating_a_topic_can_be_tried(peer: Peer) -> Any:
    return [
        await create(peer, validate_only=True, num_partitions=4),
        plain((await peer.metadata(peer.topic)).topics),
    ]


@COMPARED.add(differs("replication-factor", lakestream="none", kafka="invalid_replication_factor"))
async def create_a_topic_with_more_copies_than_brokers(peer: Peer) -> Any:
    return (await create(peer, replication_factor=3))["error_code"]


@COMPARED.add()
async def delete_topics(peer: Peer) -> Any:
    topic = await peer.create()

    async def delete(version: int, name: str | None, topic_id: Any = None) -> Any:
        api = peer.api(20, version)
        answer = await api.ask(
            "DeleteTopicsRequest",
            timeout=TIMEOUT,
            topic_names=(name,),
            topics=(api.part("DeleteTopicState", name=name, topic_id=topic_id),)
            if version >= 6
            else (),
        )
        return plain(answer.responses)

    return [
        await delete(6, None, NOBODY),
        await delete(6, f"{peer.topic}-not"),
        await delete(4, f"{peer.topic}-not"),
        await delete(6, None, topic.id),
        await gone(peer),
        await delete(5, peer.topic),
    ]


async def gone(peer: Peer) -> Any:
    (topic,) = (await peer.metadata(peer.topic)).topics
    while topic.partitions:
        await asyncio.sleep(0.05)
        (topic,) = (await peer.metadata(peer.topic)).topics
    return plain(topic)


@COMPARED.add()
async def create_partitions(peer: Peer) -> Any:
    await peer.create(partitions=2)

    async def more(count: int, name: str = peer.topic, validate_only: bool = False) -> Any:
        api = peer.api(37, 3)
        part = api.part("CreatePartitionsTopic", name=name, count=count, assignments=None)
        answer = await api.ask(
            "CreatePartitionsRequest", topics=(part,), timeout=TIMEOUT, validate_only=validate_only
        )
        return plain(answer.results)

    return [
        await more(3, f"{peer.topic}-not"),
        await more(1),
        await more(2),
        await more(0),
        await more(5, validate_only=True),
        await more(4),
        await more(3),
    ]


async def describe(peer: Peer, kind: int, name: str, *keys: str) -> Any:
    api = peer.api(32, 4)
    part = api.part(
        "DescribeConfigsResource",
        resource_type=kind,
        resource_name=name,
        configuration_keys=keys or None,
    )
    answer = await api.ask(
        "DescribeConfigsRequest",
        resources=(part,),
        include_synonyms=False,
        include_documentation=False,
    )
    (result,) = answer.results
    found = plain(result, without=("synonyms", "documentation"))
    found["configs"] = sorted(found["configs"], key=lambda each: str(each["name"]))
    return found


@COMPARED.add()
async def describe_configs_of_a_topic(peer: Peer) -> Any:
    await peer.create(configs={"retention.ms": "3600000", "cleanup.policy": "compact,delete"})
    keys = (
        "retention.ms",
        "cleanup.policy",
        "compression.type",
        "message.timestamp.type",
        "retention.bytes",
    )
    return await describe(peer, _TOPIC, peer.topic, *keys)


@COMPARED.add(
    differs("retention-is-forever", lakestream=["-1", "1048588"], kafka=["604800000", "1048588"])
)
async def defaults_of_a_topic(peer: Peer) -> Any:
    await peer.create()
    found = await describe(peer, _TOPIC, peer.topic, "retention.ms", "max.message.bytes")
    return [each["value"] for each in reversed(found["configs"])]


@COMPARED.add()
async def every_setting_of_a_topic_that_kafka_has_is_known(peer: Peer) -> Any:
    await peer.create()
    found = await describe(peer, _TOPIC, peer.topic)
    return [
        (each["name"], each["config_type"], each["is_sensitive"], each["read_only"])
        for each in found["configs"]
        if not each["name"].startswith("lakestream.")
    ]


@COMPARED.add()
async def describe_configs_of_things_that_do_not_exist(peer: Peer) -> Any:
    await peer.create()
    return [
        await describe(peer, _TOPIC, f"{peer.topic}-not"),
        await describe(peer, _TOPIC, peer.topic, "no.such.setting"),
        await describe(peer, _BROKER, "99"),
        await describe(peer, _BROKER, "x"),
        await describe(peer, 99, "x"),
    ]


@COMPARED.add()
async def describe_configs_of_the_broker(peer: Peer) -> Any:
    keys = ("node.id", "auto.create.topics.enable", "message.max.bytes", "num.partitions")
    found = await describe(peer, _BROKER, "1", *keys)
    return [(each["name"], each["value"], each["config_type"]) for each in found["configs"]]


async def alter(peer: Peer, *changes: tuple[str, int, str | None], name: str | None = None) -> Any:
    api = peer.api(44, 1)
    part = api.part(
        "AlterConfigsResource",
        resource_type=_TOPIC,
        resource_name=peer.topic if name is None else name,
        configs=tuple(
            api.part("AlterableConfig", name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ),
    )
    answer = await api.ask("IncrementalAlterConfigsRequest", resources=(part,), validate_only=False)
    return plain(answer.responses, without=("resource_name",))


@COMPARED.add()
async def alter_configs_step_by_step(peer: Peer) -> Any:
    await peer.create()
    answers = [
        await alter(peer, ("retention.ms", 0, "1000"), ("max.message.bytes", 0, "5000")),
        await alter(peer, ("retention.ms", 1, None)),
        await alter(peer, ("cleanup.policy", 2, "compact")),
        await alter(peer, ("cleanup.policy", 3, "delete")),
        await alter(peer, ("retention.ms", 0, "soon")),
        await alter(peer, ("no.such.setting", 0, "1")),
        await alter(peer, ("retention.ms", 2, "1000")),
        await alter(peer, ("retention.ms", 0, "1"), ("retention.ms", 0, "2")),
        await alter(peer, ("retention.ms", 0, None)),
        await alter(peer, ("retention.ms", 0, "1"), name=unique("nowhere")),
    ]
    described = await describe(peer, _TOPIC, peer.topic, "max.message.bytes", "cleanup.policy")
    while described["configs"][0]["value"] != "compact":  # Kafka tells it a moment later
        await asyncio.sleep(0.05)
        described = await describe(peer, _TOPIC, peer.topic, "max.message.bytes", "cleanup.policy")
    return answers, described


@COMPARED.add(
    differs("unknown-operation", lakestream="invalid_request", kafka="unknown_server_error")
)
async def alter_configs_by_an_operation_that_does_not_exist(peer: Peer) -> Any:
    await peer.create()
    (answer,) = await alter(peer, ("retention.ms", 9, "1000"))
    return answer["error_code"]


@COMPARED.add()
async def describe_topic_partitions(peer: Peer) -> Any:
    await filled(peer, 1, partitions=3)
    api = peer.api(75, 0)

    async def ask(*names: str, limit: int = 100, cursor: Any = None) -> Any:
        answer = await api.ask(
            "DescribeTopicPartitionsRequest",
            topics=tuple(api.part("TopicRequest", name=name) for name in names),
            response_partition_limit=limit,
            cursor=cursor,
        )
        return plain(answer, without=("eligible_leader_replicas", "last_known_elr"))

    rest = api.part("Cursor", topic_name=peer.topic, partition_index=2)
    return [
        await ask(peer.topic),
        await ask(peer.topic, limit=2),
        await ask(peer.topic, cursor=rest),
        await ask(f"{peer.topic}-not"),
    ]


@COMPARED.add()
async def describe_cluster(peer: Peer) -> Any:
    answer = await peer.api(60, 1).ask(
        "DescribeClusterRequest", include_cluster_authorized_operations=False, endpoint_type=1
    )
    return plain(answer)


@COMPARED.add()
async def describe_log_dirs_of_a_partition(peer: Peer) -> Any:
    await filled(peer, 3)
    api = peer.api(35, 4)
    answer = await api.ask(
        "DescribeLogDirsRequest",
        topics=(api.part("DescribableLogDirTopic", topic=peer.topic, partitions=(0,)),),
    )
    sizes = [
        partition.partition_size
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
    ]
    return answer.error_code.name, len(sizes), sum(sizes)


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
