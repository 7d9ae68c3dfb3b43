"""The cluster, partitions and log directories described on the wire."""

from asyncio import to_thread
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from lakestream_spark.ingress.handlers import (
    describe_cluster,
    describe_log_dirs,
    describe_topic_partitions,
)
from tests.support.asking import Asking, ends
from tests.support.kafka import Sent, produce
from tests.support.wire import Wire

# DescribeCluster


@ends(describe_cluster)
async def test_cluster_lists_its_brokers(lake: RunningBroker, wire: Wire, version: int) -> None:
    api = Asking(wire, describe_cluster.API_KEY, version)
    values = {"endpoint_type": 1, "include_fenced_brokers": True}
    body = await api.ask(
        "DescribeClusterRequest", include_cluster_authorized_operations=False, **values
    )
    assert (body.error_code, body.cluster_id) == (ErrorCode.none, lake.address.cluster_id)
    (node,) = body.brokers
    assert (node.broker_id, node.host, node.port) == (
        lake.address.node_id,
        lake.address.host,
        lake.address.port,
    )
    assert body.controller_id == lake.address.node_id
    assert body.cluster_authorized_operations == -(2**31)
    body = await api.ask(
        "DescribeClusterRequest", include_cluster_authorized_operations=True, **values
    )
    assert body.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("kind", "code"), [(2, "mismatched_endpoint_type"), (3, "unsupported_endpoint_type")]
)
async def test_only_brokers_can_be_described(wire: Wire, kind: int, code: str) -> None:
    api = Asking(wire, describe_cluster.API_KEY, 2)
    body = await api.ask(
        "DescribeClusterRequest",
        include_cluster_authorized_operations=False,
        endpoint_type=kind,
        include_fenced_brokers=False,
    )
    assert (body.error_code, body.brokers) == (ErrorCode[code], ())


# DescribeTopicPartitions


async def test_partitions_come_in_pages_from_cursor_to_cursor(
    lake: RunningBroker, wire: Wire
) -> None:
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        await lake.metadata.topics.create(name, partitions=partitions, replication_factor=3)
    api = Asking(wire, describe_topic_partitions.API_KEY, 0)
    cursor: Any = None
    pages: list[Any] = []
    while not pages or cursor is not None:
        given = cursor and api.part(
            "Cursor", topic_name=cursor.topic_name, partition_index=cursor.partition_index
        )
        body = await api.ask(
            "DescribeTopicPartitionsRequest", topics=(), response_partition_limit=2, cursor=given
        )
        pages.append(
            [(each.name, [p.partition_index for p in each.partitions]) for each in body.topics]
        )
        cursor = body.next_cursor
    assert pages == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]


async def test_partitions_of_named_topics_are_shown_with_their_leader(
    lake: RunningBroker, wire: Wire
) -> None:
    topic = await lake.metadata.topics.create("a", replication_factor=3)
    api = Asking(wire, describe_topic_partitions.API_KEY, 0)
    named = tuple(api.part("TopicRequest", name=name) for name in ("z", "a", "a"))
    body = await api.ask(
        "DescribeTopicPartitionsRequest", topics=named, response_partition_limit=9, cursor=None
    )
    known, unknown = body.topics
    assert (known.name, known.topic_id, known.is_internal) == ("a", topic.id, False)
    (partition,) = known.partitions
    me = lake.address.node_id
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (me, (me,), (me,))
    assert (unknown.name, unknown.error_code) == ("z", ErrorCode.unknown_topic_or_partition)
    assert body.next_cursor is None


# DescribeLogDirs


@ends(describe_log_dirs)
async def test_log_dirs_show_what_is_in_the_wal(
    lake: RunningBroker, wire: Wire, version: int
) -> None:
    await lake.metadata.topics.create("a", partitions=2)
    await lake.metadata.topics.create("b")
    await to_thread(produce, lake.bootstrap, "a", [Sent(None, bytes(1000))])
    api = Asking(wire, describe_log_dirs.API_KEY, version)

    async def ask(topics: Any) -> dict[tuple[str, int], int]:
        body = await api.ask("DescribeLogDirsRequest", topics=topics)
        (place,) = body.results
        assert (place.error_code, place.log_dir.split("://")[0]) == (ErrorCode.none, "file")
        return {
            (topic.name, each.partition_index): each.partition_size
            for topic in place.topics
            for each in topic.partitions
        }

    sizes = await ask(None)
    assert sizes.pop(("a", 0)) > 1000
    assert sizes == {("a", 1): 0, ("b", 0): 0}
    asked = (("a", (1, 7)), ("nowhere", (0,)))
    named = [api.part("DescribableLogDirTopic", topic=t, partitions=p) for t, p in asked]
    assert set(await ask(tuple(named))) == {("a", 1)}
    assert await ask(()) == {}
