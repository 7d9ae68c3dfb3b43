"""Background loops: each with a name, a period and the age of its last success.

What always holds: a run that fails is one log line, and the loop goes on after a growing pause;
only a vital loop that is fenced ends them all, because then the broker has no right to go on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Fenced, LakestreamError, first_of
from lakestream_spark.core.logs import event
from lakestream_spark.core.retry import Backoff

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Work to be done again and again; it returns True when there is more to do at once."""

    name: str
    every_s: float
    work: Callable[[], Awaitable[bool]]
    stale_after_s: float
    """Without a success for so long the broker is not ready."""
    vital: bool = False


class Upkeep:
    """Runs the loops of a broker."""

    def __init__(self, loops: Sequence[Loop], clock: Clock, random: Random) -> None:
        self._loops = tuple(loops)
        self._clock = clock
        self._random = random
        self._succeeded = {loop.name: clock.monotonic() for loop in self._loops}

    def age_s(self, name: str) -> float:
        """Since the last success of the loop, or since the start."""
        return self._clock.monotonic() - self._succeeded[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._succeeded)

    def stale(self) -> list[str]:
        """One sentence for each loop that has not succeeded for too long."""
        return [
            f"the background loop {loop.name} has not succeeded for {self.age_s(loop.name):.0f} s"
            for loop in self._loops
            if self.age_s(loop.name) > loop.stale_after_s
        ]

    async def run(self) -> None:
        """All loops until cancelled; raises `Fenced` when a vital one is."""
        try:
            async with asyncio.TaskGroup() as group:
                for loop in self._loops:
                    group.create_task(self._repeat(loop), name=f"loop-{loop.name}")
        # Python before 3.11.4 packs what an `except*` raises into a group again.
        except BaseExceptionGroup as failed:
            fenced = failed.subgroup(Fenced)
            if fenced is None:
                raise
            raise first_of(fenced) from None

    async def _repeat(self, loop: Loop) -> None:
        backoff = Backoff(first_s=min(1.0, loop.every_s), cap_s=max(30.0, loop.every_s))
        failures = 0
        while True:
            more = await self._run_once(loop)
            failures = failures + 1 if more is None else 0
            if more is None:
                pause = backoff.wait_s(failures, self._random)
            else:
                pause = 0.0 if more else loop.every_s
            await self._clock.sleep(pause)

    async def _run_once(self, loop: Loop) -> bool | None:
        """Whether there is more to do at once; None when the run failed."""
        try:
            more = await loop.work()
        except LakestreamError as error:
            if loop.vital and isinstance(error, Fenced):
                raise
            event(_log, logging.WARNING, "a background loop failed", loop=loop.name, error=error)
        except Exception:
            _log.exception("the background loop %s failed unexpectedly", loop.name)
        else:
            self._succeeded[loop.name] = self._clock.monotonic()
            return more
        metrics.LOOP_FAILURES.of(loop.name).add()
        return None


async def forever(name: str, work: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Work that never ends by itself; should it break, that is logged and it begins again."""
    while True:
        try:
            await work()
        except Exception:
            _log.exception("the task %s broke and begins again", name)
        await clock.sleep(1.0)
