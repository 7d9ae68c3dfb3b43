"""The first look at a table may take long: one read waits for it, the others wait for that read.

What always holds: of a table that nobody has read yet one read at a time holds bytes in flight, so
that a catalog that is slow for one topic leaves room for the readers of all others.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.ids import TopicId


class FirstLooks:
    """Which tables the reader process has read from, and who waits for the first read of one."""

    def __init__(self) -> None:
        self._seen: set[TopicId] = set()
        self._firsts: dict[TopicId, asyncio.Lock] = {}

    def forget(self) -> None:
        """The process that knew the tables is gone."""
        self._seen.clear()

    @asynccontextmanager
    async def turn(self, topic_id: TopicId, within_s: float) -> AsyncIterator[None]:
        """When this read may begin: at once, but for a table that another one is to read first.

        Raises `Unavailable` when that takes longer than the time.
        """
        if topic_id in self._seen:
            yield
            return
        first = self._firsts.setdefault(topic_id, asyncio.Lock())
        await _acquire(first, within_s)
        try:
            if topic_id not in self._seen:
                yield
                self._seen.add(topic_id)
                self._firsts.pop(topic_id, None)
                return
        finally:
            first.release()
        yield


async def _acquire(lock: asyncio.Lock, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await lock.acquire()
    except TimeoutError:
        raise Unavailable("the first look at the table takes longer") from None
