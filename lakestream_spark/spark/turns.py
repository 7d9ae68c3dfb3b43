"""Whose turn it is: what of a topic's backlog goes into the next batch.

What always holds: a partition that rests has no turn, and neither its age nor its bytes nor who
waits for it give its siblings one; one that failed is tried again on its own, after its rest; the
siblings go when they are due themselves.
"""

from collections.abc import Mapping, Sequence

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.backlog import PartitionBacklog, TopicBacklog
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import CompactPolicy, is_due, is_enough
from lakestream_spark.spark.troubles import Troubles

Sizes = Mapping[TopicPartition, int]
"""WAL bytes."""


class Turns:
    """Of the topics of one job that runs all the time."""

    def __init__(self, troubles: Troubles, policy: CompactPolicy) -> None:
        self._troubles = troubles
        self._policy = policy
        self.head_start_ms = 1000.0
        """About how long a batch takes."""

    def of(
        self, topic: Topic, backlog: TopicBacklog, sizes: Sizes, now_ms: int
    ) -> TopicBacklog | None:
        """What of the topic is due, None when nothing is."""
        sound = [each for each in backlog.partitions if not self._is_troubled(topic.id, each)]
        again = [
            each
            for each in backlog.partitions
            if self._is_troubled(topic.id, each)
            and not self._troubles.is_resting(topic.id, each.range.partition)
        ]
        if sound and self._is_due(topic, sound, sizes, now_ms):
            return TopicBacklog((*sound, *again))
        return TopicBacklog(tuple(again)) if again else None

    def _is_due(
        self, topic: Topic, partitions: Sequence[PartitionBacklog], sizes: Sizes, now_ms: int
    ) -> bool:
        places = [TopicPartition(topic.id, each.range.partition) for each in partitions]
        return is_due(
            TopicBacklog(tuple(partitions)),
            lag_ms=TopicConfig.of(topic.config).table_lag_ms,
            now_ms=now_ms,
            head_start_ms=self.head_start_ms,
            enough=is_enough([sizes.get(place, 0) for place in places], self._policy),
        )

    def _is_troubled(self, topic_id: TopicId, own: PartitionBacklog) -> bool:
        return self._troubles.is_troubled(topic_id, own.range.partition)
