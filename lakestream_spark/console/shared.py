"""One answer for all who ask at about the same time.

What always holds: a question is under way at most once; an answer is at most `fresh_s` old when it
is given; who asks waits for `within_s` at most and is told what does not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Unavailable

T = TypeVar("T")


class Shared(Generic[T]):
    """The newest answer to one question."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[T]],
        clock: Clock,
        *,
        fresh_s: float,
        within_s: float,
        what: str,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._fresh_s = fresh_s
        self._within_s = within_s
        self._what = what
        self._asked_at = 0.0
        self._asking: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Raises what the question raised, and `Unavailable` when it takes too long."""
        asking = self._asking
        old = self._clock.monotonic() - self._asked_at >= self._fresh_s
        if asking is None or (asking.done() and old):
            self._asked_at = self._clock.monotonic()
            asking = self._asking = asyncio.create_task(self._answer(), name="status-page")
        # One reader that gives up must not take the answer from the others.
        return await asyncio.shield(asking)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _answer(self) -> T:
        try:
            async with asyncio.timeout(self._within_s):
                return await self._ask()
        except TimeoutError:
            sentence = f"the {self._what} does not answer within {self._within_s:.0f} s"
            raise Unavailable(sentence) from None
