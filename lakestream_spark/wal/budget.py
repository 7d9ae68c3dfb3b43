"""A bound on bytes in memory: whoever wants more than is left waits its turn.

What always holds: turns are first come, first served, so that batches of one connection keep their
order; a request larger than the whole budget is let in alone instead of waiting for ever.
"""

import asyncio
from collections import deque

from lakestream_spark.core.errors import Overloaded


class ByteBudget:
    """At most `limit` bytes are out at once (or one request that is larger than that)."""

    __slots__ = ("_limit", "_resuming", "_used", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._resuming = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        return self._used

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def try_acquire(self, size: int) -> bool:
        """Take `size` bytes at once, unless there is no room or others come first."""
        # Who was let in but has not run yet still comes first: overtaking would reorder a producer.
        if self._waiting or self._resuming or not self._fits(size):
            return False
        self._used += size
        return True

    async def acquire(self, size: int, *, within_s: float) -> None:
        """Take `size` bytes; raises `Overloaded` when there is no room within the time."""
        if self.try_acquire(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(within_s):
                await turn
        except BaseException as error:
            self._leave(size, turn)
            if not isinstance(error, TimeoutError):
                raise
            raise Overloaded(
                "the store is too slow for what is sent: bytes in flight stayed at their bound",
                bound=self._limit,
                waited_s=within_s,
            ) from None
        self._resuming -= 1

    def _leave(self, size: int, turn: asyncio.Future[None]) -> None:
        """Give up a turn that timed out or was cancelled, even if it was granted just then."""
        if turn.done() and not turn.cancelled():
            self._resuming -= 1
            self.release(size)
            return
        self._waiting.remove((size, turn))
        self._admit()

    def release(self, size: int) -> None:
        self._used -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._limit

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting[0]
            if turn.done():  # Cancelled: its owner is about to take it off the queue.
                return
            self._waiting.popleft()
            self._resuming += 1
            self._used += size
            turn.set_result(None)
