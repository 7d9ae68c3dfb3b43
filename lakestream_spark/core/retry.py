"""Retrying of transient errors with exponential backoff and full jitter, bounded in time.

Only `Transient` is retried: every other error says that repeating the call cannot help.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Transient

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits of up to `first_s`, doubling to `cap_s`, until `total_s` have passed."""

    first_s: float = 0.05
    cap_s: float = 2.0
    total_s: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.cap_s:
            raise ValueError("a backoff needs 0 < first_s <= cap_s")

    def wait_s(self, attempt: int, random: Random) -> float:
        """The pause after the `attempt`-th failure (from 0): full jitter below a doubling cap."""
        ceiling = min(self.cap_s, self.first_s * 2.0 ** min(attempt, 32))
        return random.uniform(0.0, ceiling)


async def retrying(
    call: Callable[[], Awaitable[T]], *, backoff: Backoff, clock: Clock, random: Random
) -> T:
    """The result of `call`, repeated while it raises `Transient` and the backoff's time lasts."""
    deadline = clock.monotonic() + backoff.total_s
    attempt = 0
    while True:
        try:
            return await call()
        except Transient:
            pause = backoff.wait_s(attempt, random)
            if clock.monotonic() + pause >= deadline:
                raise
            await clock.sleep(pause)
            attempt += 1
