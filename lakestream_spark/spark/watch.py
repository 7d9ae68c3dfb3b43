"""Keeps the query of a compaction running until it is time to stop.

What always holds: stopping happens between two batches; a query that Spark gave up is started
again, because nothing but time is lost with it, and nobody waits for a batch that it will not end;
a start that fails, as when a Python process of Spark's is killed meanwhile, is tried a few times
before the job gives up; a drain without anything to move starts no query.
"""

import logging
from collections.abc import Callable
from random import Random
from threading import Event
from typing import Final, Protocol

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.logs import event
from lakestream_spark.core.retry import Backoff
from lakestream_spark.spark.driver import CompactDriver

_WATCH_S: Final = 0.1
_BEGIN_S: Final = 0.02
_PATIENCE_S: Final = 60.0
_FINISH_S: Final = 600.0
_START_TRIES: Final = 5
_STEADY_S: Final = 60.0
"""A query that ran for so long was well: its end is the first one."""
_log: Final = logging.getLogger(__name__)


class Query(Protocol):
    """What is asked of a streaming query."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802

    def exception(self) -> Exception | None: ...

    def stop(self) -> None: ...


class Deaths:
    """How long to wait before a query is started again."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._backoff = Backoff(first_s=1.0, cap_s=30.0)
        self._in_a_row = 0
        self._born = clock.monotonic()

    def born(self) -> None:
        self._born = self._clock.monotonic()

    def pause_s(self) -> float:
        """After one more death."""
        if self._clock.monotonic() - self._born > _STEADY_S:
            self._in_a_row = 0
        pause = self._backoff.wait_s(self._in_a_row, self._random)
        self._in_a_row += 1
        return pause


def watch(start: Callable[[], Query], driver: CompactDriver, stop: Event, *, drain: bool) -> None:
    """Keep a query running until it is time to stop, then end it between two batches."""
    clock = SystemClock()
    patience, deaths = _Patience(driver, clock), Deaths(clock, Random())
    if drain and not _has_work(driver, patience, stop):
        return
    query = _started(start, deaths, stop)
    try:
        while query is not None and not stop.wait(_WATCH_S):
            if not query.isActive:
                driver.batch_is_over()
                event(_log, logging.ERROR, "the query ended", error=query.exception())
                if stop.wait(deaths.pause_s()):
                    return
                query = _started(start, deaths, stop)
                deaths.born()
            elif drain and driver.is_drained and patience.is_over():
                return
        driver.finish(_FINISH_S, is_running=lambda: query is not None and query.isActive)
    finally:
        if query is not None:
            query.stop()


def _has_work(driver: CompactDriver, patience: "_Patience", stop: Event) -> bool:
    """Whether there is a plan to carry out: a query that is stopped while it starts leaves Python
    processes behind, which complain."""
    while not stop.wait(_BEGIN_S):
        if driver.has_plan:
            return True
        if driver.is_drained and patience.is_over():
            return False
    return False


def _started(start: Callable[[], Query], deaths: Deaths, stop: Event) -> Query | None:
    """None when it is time to stop before a start succeeds."""
    for left in reversed(range(_START_TRIES)):
        try:
            return start()
        except Exception as error:
            if not left:
                raise
            event(_log, logging.ERROR, "the query could not be started yet", error=error)
        if stop.wait(deaths.pause_s()):
            break
    return None


class _Patience:
    """Whether a drain is over: nothing is left, or what is left has not moved for a while."""

    def __init__(self, driver: CompactDriver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._progress: object = None
        self._since = 0.0

    def is_over(self) -> bool:
        left = self._driver.left_behind
        if not left:
            return True
        if self._driver.progress != self._progress:
            self._progress, self._since = self._driver.progress, self._clock.monotonic()
        if self._clock.monotonic() - self._since < _PATIENCE_S:
            return False
        raise Unavailable("some topics could not be moved into their tables", topics=sorted(left))
