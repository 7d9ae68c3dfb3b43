"""Topics as requests need them: remembered for a moment, so that a request costs no query.

What always holds: what is remembered is at most `max_age_s` old. A topic that was deleted meanwhile
is refused by the sequencer, which looks at the rows; a setting that was changed takes effect within
that time on every broker, and at once on the one that changed it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.topics import Topic, Topics

MAX_AGE_S: Final = 1.0
_MAX_ENTRIES: Final = 100_000


class _Remembered(NamedTuple):
    topic: Topic
    until: float


class CachedTopics:
    """The `Topics` service behind a short memory by name and by id."""

    def __init__(self, topics: Topics, clock: Clock, *, max_age_s: float = MAX_AGE_S) -> None:
        self._topics = topics
        self._clock = clock
        self._max_age_s = max_age_s
        self._by_name: dict[str, _Remembered] = {}
        self._by_id: dict[TopicId, _Remembered] = {}

    async def get(self, name: str) -> Topic:
        found = self._by_name.get(name)
        if found is not None and found.until > self._clock.monotonic():
            return found.topic
        try:
            return self._remember(await self._topics.get(name))
        except UnknownTopic:
            self._forget(name)
            raise

    async def get_by_id(self, topic_id: TopicId) -> Topic:
        found = self._by_id.get(topic_id)
        if found is not None and found.until > self._clock.monotonic():
            return found.topic
        try:
            return self._remember(await self._topics.get_by_id(topic_id))
        except UnknownTopic:
            self._by_id.pop(topic_id, None)
            raise

    async def list(self) -> list[Topic]:
        return [self._remember(topic) for topic in await self._topics.list()]

    async def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        return self._remember(
            await self._topics.create(
                name, partitions=partitions, replication_factor=replication_factor, config=config
            )
        )

    def forget(self, topic: Topic) -> None:
        """The topic was made, changed or deleted here: look again."""
        self._forget(topic.name)

    def _remember(self, topic: Topic) -> Topic:
        if len(self._by_name) >= _MAX_ENTRIES:
            self._by_name.clear()
            self._by_id.clear()
        entry = _Remembered(topic, self._clock.monotonic() + self._max_age_s)
        self._by_name[topic.name] = entry
        self._by_id[topic.id] = entry
        return topic

    def _forget(self, name: str) -> None:
        found = self._by_name.pop(name, None)
        if found is not None:
            self._by_id.pop(found.topic.id, None)
