"""A clock that moves only when a test says so, or when everybody sleeps."""

import asyncio
import heapq
from itertools import count


class SimulatedClock:
    """Time stands still until `advance`; sleepers wake in the order of their times."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000) -> None:
        self._now = 0.0
        self._wall_ms = wall_ms
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def wall_ms(self) -> int:
        return self._wall_ms + int(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), wake))
        await wake

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking sleepers on the way and letting them run."""
        end = self._now + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, wake = heapq.heappop(self._sleepers)
            self._now = max(self._now, at)
            if not wake.done():
                wake.set_result(None)
            await _settle()
        self._now = end


async def _settle() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)
