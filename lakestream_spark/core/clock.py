"""Time as an argument: a component never asks the machine itself, so a simulation can replay it.

Wall time is for people and for retention; `monotonic` is for waiting and for leases.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What a component may know about time."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as shown to people; may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of monotonic time."""


class SystemClock:
    """The machine's own clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
