"""How many WAL bytes wait for their tables: asked at times, estimated in between.

What always holds: asking takes a tenth of the time at most, because the answer costs a look at the
whole index of what waits; in between a partition has as many bytes for each offset as the last
answer said, so that what arrives and what is moved is seen at every look. A partition that nobody
asked about counts as empty: its topic waits for its lag target at the latest.
"""

from collections.abc import Awaitable, Iterator, Mapping
from typing import Final, TypeVar

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.spark.turns import Sizes

T = TypeVar("T")

_TIMES_ITS_COST: Final = 10
_LONGEST_PAUSE_S: Final = 30.0


class WalSizes:
    """Remembers the last answers."""

    def __init__(self, metadata: Metadata, clock: Clock) -> None:
        self._metadata = metadata
        self._total_pace = _Pace(clock)
        self._sizes_pace = _Pace(clock)
        self._total = 0
        self._bytes_per_offset: dict[TopicPartition, float] = {}
        self.exact: Sizes = {}
        """What was asked at this look, and is not estimated."""

    async def total(self) -> int:
        """The bytes of all topics; a look begins with this question."""
        self.exact = {}
        if self._total_pace.is_over:
            self._total = await self._total_pace.timed(self._metadata.backlog.wal_bytes())
        return self._total

    async def of(self, backlogs: Mapping[TopicId, TopicBacklog]) -> Sizes:
        """The bytes of the partitions of these topics."""
        offsets = dict(_offsets(backlogs))
        if not self._sizes_pace.is_over:
            return {
                place: int(count * self._bytes_per_offset.get(place, 0.0))
                for place, count in offsets.items()
            }
        asked = self._metadata.topics.wal_bytes(list(backlogs))
        self.exact = await self._sizes_pace.timed(asked)
        self._bytes_per_offset = {
            place: self.exact.get(place, 0) / count for place, count in offsets.items()
        }
        return self.exact


class _Pace:
    """When a question may be asked again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._not_before = clock.monotonic()

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic() >= self._not_before

    async def timed(self, answer: Awaitable[T]) -> T:
        began = self._clock.monotonic()
        found = await answer
        now = self._clock.monotonic()
        self._not_before = now + min(_TIMES_ITS_COST * (now - began), _LONGEST_PAUSE_S)
        return found


def _offsets(backlogs: Mapping[TopicId, TopicBacklog]) -> Iterator[tuple[TopicPartition, int]]:
    """How many offsets of each partition wait; at least one."""
    for topic_id, backlog in backlogs.items():
        for planned in backlog.ranges:
            yield TopicPartition(topic_id, planned.partition), planned.next - planned.first
