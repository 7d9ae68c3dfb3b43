"""Records and bytes per second, from high watermarks that move.

What always holds: a rate is that of the last seconds that somebody watched; a topic that was not
seen for so long has none yet. Pure: the moments and the counts come in by argument.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.overview import Arrived, PartitionNow

WINDOW_S: Final = 10.0


class Rate(NamedTuple):
    """Per second."""

    records: float
    bytes: float


class _Moment(NamedTuple):
    at: float
    arrived: Mapping[TopicId, Arrived]
    """Counted from when the topic was first seen."""


class Rates:
    """Give it every look at the partitions; `moved` first, then `take`."""

    def __init__(self) -> None:
        self._moments: deque[_Moment] = deque()
        self._ends: dict[int, int] = {}
        self._sizes: dict[TopicId, float] = {}
        """Bytes of a record, as they were last."""

    def moved(self, now: float, partitions: list[PartitionNow]) -> dict[int, int]:
        """By row id, the former high watermarks of those that moved since the last look."""
        while self._moments and now - self._moments[0].at > WINDOW_S:
            self._moments.popleft()
        if not self._moments:
            self._ends = {}
        return {
            each.row_id: self._ends[each.row_id]
            for each in partitions
            if self._ends.get(each.row_id, each.ends.high_watermark) < each.ends.high_watermark
        }

    def take(
        self, now: float, partitions: list[PartitionNow], arrived: Mapping[int, Arrived]
    ) -> dict[TopicId, Rate]:
        """The rates of the topics; `arrived` is what the WAL holds of the ones that moved."""
        before = self._moments[-1].arrived if self._moments else {}
        totals: dict[TopicId, Arrived] = {}
        for each in partitions:
            topic_id, end = each.partition.topic_id, each.ends.high_watermark
            records = end - self._ends.get(each.row_id, end)
            size = self._bytes(topic_id, records, arrived.get(each.row_id, Arrived(0, 0)))
            total = totals.get(topic_id) or before.get(topic_id, Arrived(0, 0))
            totals[topic_id] = Arrived(total.records + records, total.bytes + size)
        self._ends = {each.row_id: each.ends.high_watermark for each in partitions}
        self._moments.append(_Moment(now, totals))
        return {
            topic_id: rate
            for topic_id in totals
            if (rate := self._rate(topic_id, now, totals[topic_id])) is not None
        }

    def _bytes(self, topic_id: TopicId, records: int, found: Arrived) -> int:
        """Exact while all of it is in the WAL; what went to the table meanwhile is as large."""
        if not records:
            return 0
        if found.records:
            self._sizes[topic_id] = found.bytes / found.records
        return round(records * self._sizes.get(topic_id, 0.0))

    def _rate(self, topic_id: TopicId, now: float, total: Arrived) -> Rate | None:
        first = next((each for each in self._moments if topic_id in each.arrived), None)
        if first is None or now <= first.at:
            return None
        since, seconds = first.arrived[topic_id], now - first.at
        return Rate(
            (total.records - since.records) / seconds, (total.bytes - since.bytes) / seconds
        )
