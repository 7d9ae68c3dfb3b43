"""Retrying of a store's transient errors, with exponential backoff and full jitter.

A repeated `put` is safe: if the first one took effect, the store finds the same bytes there.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import TypeVar

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.retry import Backoff, retrying
from lakestream_spark.objectstore.store import Data, ObjectInfo, ObjectStore, Ranges

T = TypeVar("T")

_DEFAULT = Backoff()


class Retrying:
    """The store, with every call repeated while it is unavailable and the backoff's time lasts."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        backoff: Backoff = _DEFAULT,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._store = store
        self._backoff = backoff
        self._clock = clock or SystemClock()
        self._random = random or Random()

    @property
    def url(self) -> str:
        return self._store.url

    async def put(self, key: str, data: Data) -> None:
        await self._retry(lambda: self._store.put(key, data))

    async def get(self, key: str) -> bytes:
        return await self._retry(lambda: self._store.get(key))

    async def get_ranges(self, key: str, starts: Sequence[int], lengths: Sequence[int]) -> Ranges:
        return await self._retry(lambda: self._store.get_ranges(key, starts, lengths))

    async def head(self, key: str) -> int:
        return await self._retry(lambda: self._store.head(key))

    async def delete(self, keys: Sequence[str]) -> None:
        await self._retry(lambda: self._store.delete(keys))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Begun again until the first object is shown; a failure after that is the caller's,
        because what was shown cannot be taken back."""
        info, rest = await self._retry(lambda: _begin(self._store.list(prefix)))
        while info is not None:
            yield info
            info = await anext(rest, None)

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        return await retrying(call, backoff=self._backoff, clock=self._clock, random=self._random)


async def _begin(
    found: AsyncIterator[ObjectInfo],
) -> tuple[ObjectInfo | None, AsyncIterator[ObjectInfo]]:
    return await anext(found, None), found
