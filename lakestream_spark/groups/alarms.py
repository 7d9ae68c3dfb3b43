"""One alarm per group, at the group's next deadline.

What always holds: an alarm never rings later than the earliest deadline it was set to since it last
rang; it may ring too early, and is then set again. So a heartbeat, which only moves deadlines away,
costs nothing.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from lakestream_spark.core.clock import Clock


class _Alarm(NamedTuple):
    at: float
    task: asyncio.Task[None]


class Alarms:
    """Calls `ring(key)` in time; owns the tasks that wait."""

    def __init__(self, clock: Clock, ring: Callable[[str], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._set: dict[str, _Alarm] = {}

    def set(self, key: str, at: float) -> None:
        """Ring at that time at the latest."""
        alarm = self._set.get(key)
        if at == inf or (alarm is not None and alarm.at <= at):
            return
        self.cancel(key)
        task = asyncio.create_task(self._wait(key, at), name=f"group-alarm-{key}")
        self._set[key] = _Alarm(at, task)

    def cancel(self, key: str) -> None:
        alarm = self._set.pop(key, None)
        if alarm is not None:
            alarm.task.cancel()

    def cancel_all(self) -> None:
        for key in list(self._set):
            self.cancel(key)

    async def _wait(self, key: str, at: float) -> None:
        await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
        # Out of the table first: what rings may set it again, and must not cancel itself.
        del self._set[key]
        self._ring(key)
