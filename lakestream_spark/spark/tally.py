"""What a compaction has done, for its metrics, its registry entry and whoever watches."""

import logging
from typing import Final

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.logs import event
from lakestream_spark.spark.outcome import Movable

_log: Final = logging.getLogger(__name__)


class Tally:
    """Counts of one life of a job."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.started_ms = clock.wall_ms()
        self.last_success_ms: int | None = None
        self.commits = 0
        self.rows = 0
        self.bytes = 0
        self.files = 0

    def committed(self, topic: str, found: Movable, seconds: float) -> None:
        self.last_success_ms = self._clock.wall_ms()
        rows = sum(file.rows for file in found.files)
        size = sum(file.size for file in found.files)
        self.commits += 1
        self.rows += rows
        self.bytes += size
        self.files += len(found.files)
        metrics.TABLE_ROWS.of(topic).add(rows)
        metrics.TABLE_BYTES.of(topic).add(size)
        metrics.TABLE_FILES.of(topic).add(len(found.files))
        metrics.TABLE_COMMIT_SECONDS.of().observe(seconds)
        event(
            _log,
            logging.INFO,
            "committed",
            topic=topic,
            rows=rows,
            files=len(found.files),
            bytes=size,
            seconds=round(seconds, 3),
        )

    def failed(self, topic: str) -> None:
        metrics.TABLE_FAILURES.of(topic).add()
