"""The brokers that clients are shown for a partition."""

from itertools import islice

from kio.schema.errors import ErrorCode

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.ports import Cluster
from lakestream_spark.metadata.topics import Topic


def replica_ids(
    cluster: Cluster, topic: Topic, index: int, rack: str | None = None
) -> tuple[int, ...]:
    """As many live brokers as the topic asked for replicas, the leader first; all of them serve."""
    leader = cluster.leader(TopicPartition(topic.id, index), rack).node_id
    others = (node.node_id for node in cluster.brokers() if node.node_id != leader)
    return (leader, *islice(others, topic.replication_factor - 1))


def shown_partition(index: int, replicas: tuple[int, ...]) -> dict[str, object]:
    """The fields by which Metadata and DescribeTopicPartitions show a partition."""
    return {
        "error_code": ErrorCode.none,
        "partition_index": index,
        "leader_id": replicas[0],
        "leader_epoch": 0,
        "replica_nodes": replicas,
        "isr_nodes": replicas,
        "offline_replicas": (),
    }
