"""Metadata: the same requests to both clusters, and the same answers."""

import asyncio
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from tests.compat.clusters import Cluster
from tests.compat.comparison import Comparisons
from tests.compat.peer import NOBODY, Peer, plain

COMPARED: Final = Comparisons()


@COMPARED.add()
async def metadata_of_an_unknown_topic(peer: Peer) -> Any:
    return plain((await peer.metadata(peer.topic)).topics)


@COMPARED.add()
async def metadata_of_an_unknown_topic_that_may_be_made(peer: Peer) -> Any:
    first = (await peer.metadata(peer.topic, create=True)).topics[0].error_code
    (topic,) = (await peer.metadata(peer.topic)).topics
    while not topic.partitions or topic.error_code is not ErrorCode.none:
        await asyncio.sleep(0.05)
        (topic,) = (await peer.metadata(peer.topic)).topics
    # Kafka says UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE until it is there.
    return first is not None, len(topic.partitions), topic.error_code.name


@COMPARED.add()
async def metadata_of_a_topic_with_an_illegal_name(peer: Peer) -> Any:
    return [plain((await peer.metadata(name, create=True)).topics) for name in ("a b", "..", "ä")]


@COMPARED.add()
async def metadata_of_an_unknown_topic_id(peer: Peer) -> Any:
    api = peer.api(3, 12)
    answer = await api.ask(
        "MetadataRequest",
        topics=(api.part("MetadataRequestTopic", topic_id=NOBODY, name=None),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return plain(answer.topics)


@COMPARED.add()
async def metadata_of_a_topic_by_id(peer: Peer) -> Any:
    topic = await peer.create(partitions=2)
    api = peer.api(3, 12)
    answer = await api.ask(
        "MetadataRequest",
        topics=(api.part("MetadataRequestTopic", topic_id=topic.id, name=None),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return answer.topics[0].topic_id == topic.id, by_partition(plain(answer.topics[0]))


def by_partition(topic: dict[str, Any]) -> dict[str, Any]:
    topic["partitions"] = sorted(topic["partitions"], key=lambda each: each["partition_index"])
    return topic


@COMPARED.add()
async def metadata_in_its_oldest_and_newest_version(peer: Peer) -> Any:
    await peer.create(partitions=2)
    found = []
    for version in (0, 1, 4, 5, 7, 9, 13):
        answer = await peer.metadata(peer.topic, version=version)
        found.append((plain(answer.brokers), by_partition(plain(answer.topics[0]))))
    return found


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
