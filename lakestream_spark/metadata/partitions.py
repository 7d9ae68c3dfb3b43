"""The row ids of partitions. The mapping never changes: a row id is never used twice."""

from collections.abc import Sequence

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.database import Fetch, Rows, Transaction
from lakestream_spark.wal.ports import PartitionEnds

ENDS = "log_start, table_end, COALESCE(first_unstable, next_offset), next_offset"
"""The columns of `PartitionEnds`, in its order."""


class PartitionIds:
    """Remembers row ids. Whether a partition still exists is told by its row alone."""

    def __init__(self) -> None:
        self._topics: dict[TopicId, dict[int, int]] = {}

    def of(self, partitions: Sequence[TopicPartition]) -> Transaction[list[int | None]]:
        """The row id of each partition; None for one that is unknown."""
        ids = self._known(partitions)
        if None not in ids:
            return ids
        missing = {p.topic_id for p, row_id in zip(partitions, ids, strict=True) if row_id is None}
        by_text = {str(topic_id): topic_id for topic_id in missing}
        rows = yield Fetch(
            "SELECT topic_id, partition_index, id FROM partitions WHERE topic_id = ANY($1::text[])",
            (sorted(by_text),),
        )
        for text, index, row_id in rows:
            self._topics.setdefault(by_text[text], {})[index] = row_id
        return self._known(partitions)

    def drop(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget the topics of partitions that turned out to be deleted."""
        for partition in partitions:
            self._topics.pop(partition.topic_id, None)

    def _known(self, partitions: Sequence[TopicPartition]) -> list[int | None]:
        ids: list[int | None] = []
        topic_id: TopicId | None = None
        own: dict[int, int] = {}
        for partition in partitions:
            if partition.topic_id is not topic_id:  # hashing a UUID is slow, and they come in runs
                topic_id = partition.topic_id
                own = self._topics.get(topic_id, {})
            ids.append(own.get(partition.number))
        return ids


def find_partition(partition: TopicPartition) -> Transaction[tuple[int, PartitionEnds]]:
    """Row id and borders of one partition; raises `UnknownTopic`."""
    rows = yield Fetch(
        f"SELECT id, {ENDS} FROM partitions WHERE topic_id = $1 AND partition_index = $2",
        (str(partition.topic_id), partition.number),
    )
    if not rows:
        raise UnknownTopic("no such topic or partition", partition=partition)
    return rows[0][0], PartitionEnds(*rows[0][1:])


def lock_partitions(row_ids: Sequence[int]) -> Transaction[Rows]:
    """Lock the partitions that exist until the end; rows of (id, next offset, first unstable)."""
    # One statement, in id order: in any other order two transactions can wait for each other.
    rows = yield Fetch(
        "SELECT id, next_offset, first_unstable FROM partitions "
        "WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE",
        (row_ids,),
    )
    return rows


def lock_partitions_of(topic_id: TopicId) -> Transaction[Rows]:
    """Lock all of a topic's partitions in id order; rows of (id, index, *PartitionEnds)."""
    rows = yield Fetch(
        f"SELECT id, partition_index, {ENDS} FROM partitions WHERE topic_id = $1 "
        "ORDER BY id FOR UPDATE",
        (str(topic_id),),
    )
    return rows
