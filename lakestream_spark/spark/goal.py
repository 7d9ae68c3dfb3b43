"""Where a drain ends: at what was acknowledged when it first looked, however long producers go on.

Pure. What always holds: the goal of a partition moves only while somebody waits for a flush of its
topic, and a flush waits for a fixed end: so a drain comes to its end.
"""

from collections.abc import Mapping

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.backlog import TopicBacklog


class Goal:
    """The ends that were seen first, by topic and partition."""

    def __init__(self) -> None:
        self._ends: dict[TopicId, Mapping[int, int]] | None = None

    def within(self, backlogs: Mapping[TopicId, TopicBacklog]) -> dict[TopicId, TopicBacklog]:
        """What of the backlogs lies below the goal; the first call sets it."""
        if self._ends is None:
            self._ends = {topic_id: _ends(backlog) for topic_id, backlog in backlogs.items()}
        found = {}
        for topic_id, backlog in backlogs.items():
            if backlog.flush_wanted:
                self._ends[topic_id] = _ends(backlog)
            cut = _cut(backlog, self._ends.get(topic_id, {}))
            if cut.ranges:
                found[topic_id] = cut
        return found


def _ends(backlog: TopicBacklog) -> Mapping[int, int]:
    return {planned.partition: planned.next for planned in backlog.ranges}


def _cut(backlog: TopicBacklog, ends: Mapping[int, int]) -> TopicBacklog:
    below = (
        planned._replace(next=min(planned.next, ends.get(planned.partition, 0)))
        for planned in backlog.ranges
    )
    return backlog._replace(ranges=tuple(each for each in below if each.first < each.next))
