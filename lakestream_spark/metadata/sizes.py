"""How much of each partition is in the WAL."""

from collections.abc import Sequence
from uuid import UUID

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.database import Fetch, Transaction


def wal_bytes(topic_ids: Sequence[TopicId]) -> Transaction[dict[TopicPartition, int]]:
    """The bytes of every partition of the topics that are not in the table yet."""
    rows = yield Fetch(
        "SELECT p.topic_id, p.partition_index, CAST(COALESCE(SUM(e.length), 0) AS bigint) "
        "FROM partitions p LEFT JOIN extents e ON e.partition_id = p.id "
        "WHERE p.topic_id = ANY($1::text[]) "
        "GROUP BY p.id, p.topic_id, p.partition_index",
        ([str(topic_id) for topic_id in topic_ids],),
    )
    return {TopicPartition(TopicId(UUID(text)), index): size for text, index, size in rows}
