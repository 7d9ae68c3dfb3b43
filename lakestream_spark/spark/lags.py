"""How far the tables are behind, as metrics: by topic, refreshed at every look at the backlog."""

from collections.abc import Mapping

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.metadata.backlog import TopicBacklog


class Lags:
    """Remembers which topics were shown, so that one that caught up shows zero."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._shown: set[str] = set()
        self._oldest_ms: dict[str, int] = {}

    def show(self, backlogs: Mapping[str, TopicBacklog], now_ms: int) -> None:
        if not backlogs:
            metrics.TABLE_LAG_BYTES.of().value = 0.0
        for topic in self._shown - set(backlogs):
            metrics.TABLE_LAG_SECONDS.of(topic).read_from(lambda: 0.0)
            metrics.TABLE_LAG_RECORDS.of(topic).value = 0.0
        for topic, backlog in backlogs.items():
            behind = sum(planned.next - planned.first for planned in backlog.ranges)
            self._grow(topic, max(0, now_ms - backlog.oldest_ms) / 1000)
            metrics.TABLE_LAG_RECORDS.of(topic).value = float(behind)
        self._shown |= set(backlogs)
        self._oldest_ms = {topic: backlog.oldest_ms for topic, backlog in backlogs.items()}

    def left(self, wal_bytes: int) -> None:
        """So many bytes of the WAL are not in tables."""
        metrics.TABLE_LAG_BYTES.of().value = float(wal_bytes)

    def _grow(self, topic: str, lag_s: float) -> None:
        """The lag goes on between two looks: a batch may take long, and an outage for ever."""
        at_s = self._clock.monotonic()
        level = metrics.TABLE_LAG_SECONDS.of(topic)
        level.read_from(lambda: lag_s + self._clock.monotonic() - at_s)

    def committed(self, topic: str, now_ms: int) -> None:
        """What the last look saw of the topic has become visible."""
        age_ms = now_ms - self._oldest_ms.get(topic, now_ms)
        metrics.TABLE_COMMIT_LAG.of(topic).value = max(0, age_ms) / 1000
        at_s = self._clock.monotonic()
        metrics.TABLE_COMMIT_AGE.of(topic).read_from(lambda: self._clock.monotonic() - at_s)
