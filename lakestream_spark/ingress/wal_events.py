"""What the WAL writers tell: into the metrics, and on to the fetches that wait for records."""

import logging
from collections.abc import Mapping
from typing import Final

from lakestream_spark.core import metrics
from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.core.logs import event
from lakestream_spark.ingress.tail import TailWatch

_log: Final = logging.getLogger(__name__)


class WalEvents:
    """The WAL's `WriterEvents` port."""

    def __init__(self, tail: TailWatch) -> None:
        self._tail = tail

    def uploaded(self, profile: str, size: int, seconds: float) -> None:
        series = metrics.wal(profile)
        series.upload_seconds.observe(seconds)
        series.segment_bytes.observe(size)

    def committed(self, profile: str, ends: Mapping[TopicPartition, int], seconds: float) -> None:
        metrics.wal(profile).commit_seconds.observe(seconds)
        self._tail.committed(ends)

    def failed(self, profile: str, error: Exception) -> None:
        metrics.wal(profile).failures.add()
        # Who was taken for dead loses what was on its way: clients send it to the others again.
        level = logging.WARNING if isinstance(error, Fenced) else logging.ERROR
        event(_log, level, "a WAL segment failed", profile=profile, error=error)
