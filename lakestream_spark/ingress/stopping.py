"""A stop in good order and in bounded time.

What always holds: a step that fails or takes too long is one log line and does not keep the next
one from running; all steps together take the time allowed, plus a moment for each that comes late.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.logs import event

_log: Final = logging.getLogger(__name__)
_MOMENT_S: Final = 0.5


class GracefulStop:
    """The time a stop may take, from `begin` or else from its first step."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadline: float | None = None

    def begin(self) -> None:
        if self._deadline is None:
            self._deadline = self._clock.monotonic() + self._timeout_s

    @property
    def left_s(self) -> float:
        self.begin()
        return (self._deadline or 0.0) - self._clock.monotonic()

    async def step(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do one step of the stop; never raises but when cancelled."""
        try:
            async with asyncio.timeout(max(self.left_s, _MOMENT_S)):
                await work()
        except TimeoutError:
            event(_log, logging.WARNING, "a step of the stop took too long", step=what)
        except Exception as error:
            event(_log, logging.WARNING, "a step of the stop failed", step=what, error=error)
