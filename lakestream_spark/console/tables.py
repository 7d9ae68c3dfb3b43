"""What is known of the tables, learned while somebody looks at the page.

What always holds: a table is asked about again only when its end has moved, or after minutes; of a
process that reads tables no more than a quarter of its time is taken; nobody who looks at the list
of topics waits for a table; a catalog that does not answer is said in one sentence.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lakestream_spark.console.parts import Parts
from lakestream_spark.core.errors import LakestreamError, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.history.about import TableFacts
from lakestream_spark.metadata.topics import Topic

_ATTENTION_S: Final = 10.0
"""A page that is open asks more often than that."""
WAIT_S: Final = 2.0
_AGAIN_S: Final = 5.0
_OLD_S: Final = 300.0
_SHORTEST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
_PAUSES: Final = 3.0
_WAL_BYTES_EVERY_S: Final = 10.0


class _Known(NamedTuple):
    """Of a table whose end was here when it was asked about; no facts: that failed."""

    facts: TableFacts | None
    table_end: int
    at: float
    quarantined: int | None = None


class TableWatch:
    """The facts of every topic's table."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[TopicId, _Known] = {}
        self._topics: Sequence[Topic] = ()
        self._ends: Mapping[TopicId, int] = {}
        self._looked_at = 0.0
        self._measured_at: float | None = None
        self._watching: asyncio.Task[None] | None = None
        self._asking: dict[TopicId, asyncio.Task[TableFacts]] = {}
        self.wal_bytes: Mapping[TopicId, int] = {}
        self.trouble: str | None = None
        """Why a table could not be looked at, the last time."""

    def look(self, topics: Sequence[Topic], table_ends: Mapping[TopicId, int]) -> None:
        """Somebody looks at these topics now."""
        self._topics, self._ends = topics, table_ends
        self._looked_at = self._now
        self._known = {key: known for key, known in self._known.items() if key in table_ends}
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="status-page-tables")

    def known(self, topic_id: TopicId) -> TableFacts | None:
        """What was learned last."""
        known = self._known.get(topic_id)
        return None if known is None else known.facts

    def quarantined(self, topic_id: TopicId) -> int | None:
        """How many batches of the topic were set aside, as it was learned last."""
        known = self._known.get(topic_id)
        return None if known is None else known.quarantined

    async def now(self, topic: Topic, table_end: int) -> TableFacts | None:
        """As it is now, and None before the first commit; raises `Unavailable` soon enough."""
        if table_end == 0:
            return None
        known = self._known.get(topic.id)
        if known is not None and known.facts is not None and not self._is_due(known, table_end):
            return known.facts
        try:
            async with asyncio.timeout(WAIT_S):
                return await asyncio.shield(self._ask(topic, table_end))
        except TimeoutError:
            # It goes on: who asks again may find the answer.
            sentence = f"the table was not looked at within {WAIT_S:.0f} s; trying on"
            raise Unavailable(sentence) from None

    async def close(self) -> None:
        tasks = [*self._asking.values(), *([] if self._watching is None else [self._watching])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _now(self) -> float:
        return self._parts.clock.monotonic()

    async def _watch(self) -> None:
        while self._now - self._looked_at < _ATTENTION_S:
            began = self._now
            if self._measured_at is None or began - self._measured_at >= _WAL_BYTES_EVERY_S:
                await self._measure()
            topic = self._next()
            if topic is not None:
                await self._learn(topic)
            pause_s = _PAUSES * (self._now - began)
            shortest = _LONGEST_PAUSE_S if topic is None else _SHORTEST_PAUSE_S
            await self._parts.clock.sleep(min(max(pause_s, shortest), _LONGEST_PAUSE_S))

    async def _measure(self) -> None:
        """The bytes in the WAL: one look at every extent."""
        self._measured_at = self._now
        try:
            found = await self._parts.metadata.topics.wal_bytes(list(self._ends))
        except LakestreamError:
            return  # The list of topics says so.
        sums: dict[TopicId, int] = {}
        for partition, size in found.items():
            sums[partition.topic_id] = sums.get(partition.topic_id, 0) + size
        self.wal_bytes = sums

    def _next(self) -> Topic | None:
        """A topic that was never asked about, or else one whose table has changed."""
        changed: Topic | None = None
        for topic in self._topics:
            known, end = self._known.get(topic.id), self._ends.get(topic.id, 0)
            if end == 0:
                continue
            if known is None:
                return topic
            if changed is None and self._is_due(known, end):
                changed = topic
        return changed

    def _is_due(self, known: _Known, table_end: int) -> bool:
        age_s = self._now - known.at
        changed = known.facts is None or known.table_end != table_end
        return age_s >= (_AGAIN_S if changed else _OLD_S)

    async def _learn(self, topic: Topic) -> None:
        try:
            await asyncio.shield(self._ask(topic, self._ends.get(topic.id, 0)))
        except LakestreamError:
            return  # It is known that it failed.

    def _ask(self, topic: Topic, table_end: int) -> asyncio.Task[TableFacts]:
        """One question about a table at a time, whoever asks."""
        asking = self._asking.get(topic.id)
        if asking is None:
            asking = asyncio.create_task(self._asked(topic, table_end), name="about-table")
            self._asking[topic.id] = asking
        return asking

    async def _asked(self, topic: Topic, table_end: int) -> TableFacts:
        known = _Known(None, table_end, self._now)
        try:
            # Batches are set aside by the commits that move the table's end, and by nobody else.
            aside = await self._parts.metadata.tables.quarantined(topic.id)
            known = known._replace(quarantined=len(aside))
            facts = await self._parts.history.about(topic)
            known, self.trouble = known._replace(facts=facts), None
            return facts
        except LakestreamError as error:
            self.trouble = f"the table of {topic.name} cannot be looked at: {error.message}"
            raise
        finally:
            self._known[topic.id] = known
            del self._asking[topic.id]
