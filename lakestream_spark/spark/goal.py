"""Where a drain ends: at what was acknowledged when it first looked, however long producers go on.

Pure. What always holds: the goal of a partition moves only to where somebody asked for a flush of
it, and no further: so a drain comes to its end, also when it is the drain itself that asked.
"""

from collections.abc import Mapping

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.backlog import PartitionBacklog, TopicBacklog


class Goal:
    """The ends that were seen first, by partition."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, int] | None = None

    def within(self, backlogs: Mapping[TopicId, TopicBacklog]) -> dict[TopicId, TopicBacklog]:
        """What of the backlogs lies below the goal; the first call sets it."""
        if self._ends is None:
            self._ends = {
                TopicPartition(topic_id, planned.partition): planned.next
                for topic_id, backlog in backlogs.items()
                for planned in backlog.ranges
            }
        found = {}
        for topic_id, backlog in backlogs.items():
            below = [_cut(each, _end(self._ends, topic_id, each)) for each in backlog.partitions]
            left = tuple(each for each in below if each.range.first < each.range.next)
            if left:
                found[topic_id] = TopicBacklog(left)
        return found


def _end(ends: dict[TopicPartition, int], topic_id: TopicId, own: PartitionBacklog) -> int:
    """The goal of a partition, which moves to where a flush is waited for."""
    place = TopicPartition(topic_id, own.range.partition)
    if own.flush_wanted and own.wanted_end is not None:
        ends[place] = max(ends.get(place, 0), own.wanted_end)
    return ends.get(place, 0)


def _cut(own: PartitionBacklog, end: int) -> PartitionBacklog:
    return own._replace(range=own.range._replace(next=min(own.range.next, end)))
