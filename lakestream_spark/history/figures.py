"""What a broker shows of its reader of tables, on its metrics page.

What always holds: it is fed on the event loop only, also with what the reader's process counted.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakestream_spark.core import metrics
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.series import Count, Spread
from lakestream_spark.history.tally import Counted, Timed, Told

_COUNTS: Final = {
    Counted.ROWS: metrics.HISTORY_ROWS,
    Counted.ROW_GROUPS: metrics.HISTORY_ROW_GROUPS,
    Counted.HITS: metrics.HISTORY_CACHE_HITS,
    Counted.WAITS: metrics.HISTORY_CACHE_WAITS,
    Counted.MISSES: metrics.HISTORY_CACHE_MISSES,
    Counted.AHEAD: metrics.HISTORY_AHEAD,
}


class HistoryFigures:
    """The series that one broker feeds."""

    def __init__(self) -> None:
        self._counts: dict[str, Count] = {what: each.of() for what, each in _COUNTS.items()}
        self._times: dict[str, Spread] = {
            Timed.PLAN: metrics.HISTORY_PLAN_SECONDS.of(),
            Timed.QUEUE: metrics.HISTORY_WAIT_SECONDS.of("thread"),
        }
        self._room = metrics.HISTORY_WAIT_SECONDS.of("memory")
        self._bytes = metrics.HISTORY_BYTES.of()
        self.starts = metrics.HISTORY_STARTS.of()
        self.kept_bytes = 0

    @contextmanager
    def answering(self, what: str) -> Iterator[None]:
        """A read of this kind, with all its waiting."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            yield
        except LakestreamError as error:
            metrics.HISTORY_ERRORS.of(type(error).__name__).add()
            raise
        metrics.HISTORY_READS.of(what).add()
        metrics.HISTORY_SECONDS.of(what).observe(clock() - began)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For a share of the memory."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            yield
        finally:
            self._room.observe(clock() - began)

    def served(self, size: int) -> None:
        self._bytes.add(size)

    def tallied(self, body: bytearray) -> None:
        """What the process counted since it said so last."""
        told = Told.from_body(body)
        for what, number in told.counts.items():
            self._counts[what].add(number)
        for what, seconds in told.seconds:
            self._times[what].observe(seconds)
        self.kept_bytes = told.cache_bytes
