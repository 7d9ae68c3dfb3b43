"""Waking fetches that wait at the end of a partition, whichever broker commits the next batch.

Local commits are told by the writer. Commits of other brokers are noticed by asking the metadata
store for the high watermarks of just those partitions that somebody waits for: one query for all of
them, and only while somebody waits. `changed` says when asking is worthwhile.

What always holds: a wait ends when a watched partition's high watermark is above the offset it was
given, also when that happened between the read and the wait, or when its time is over.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from lakestream_spark.core.errors import Transient
from lakestream_spark.core.ids import TopicPartition


class HighWatermarks(Protocol):
    """What the metadata store knows of other brokers' commits."""

    async def high_watermarks(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Of those that exist."""

    async def changed(self, within_s: float) -> None:
        """Return when somebody may have committed, at the latest after `within_s`."""


class Watch:
    """One fetch's interest in partitions, from before it first reads until it answers."""

    __slots__ = ("_known", "_thresholds", "_woken")

    def __init__(self) -> None:
        self._known: dict[TopicPartition, int] = {}
        self._thresholds: Mapping[TopicPartition, int] = {}
        self._woken: asyncio.Future[None] | None = None

    async def wait(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Return when one of these partitions has a record at or after its offset, or in time."""
        self._thresholds = offsets
        # Committed after the read and before this call: known already.
        if any(self._known.get(partition, -1) > offset for partition, offset in offsets.items()):
            return
        self._woken = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._woken], timeout=timeout_s)
        self._woken = None

    def committed(self, partition: TopicPartition, end: int) -> None:
        self._known[partition] = end
        threshold = self._thresholds.get(partition)
        if threshold is not None and end > threshold:
            self.wake()

    def wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class TailWatch:
    """All waiting fetches of one broker."""

    def __init__(self, store: HighWatermarks, *, poll_s: float = 0.5) -> None:
        self._store = store
        self._poll_s = poll_s
        self._watches: dict[TopicPartition, set[Watch]] = {}
        self._somebody = asyncio.Event()

    @property
    def watched(self) -> int:
        """How many partitions somebody waits for."""
        return len(self._watches)

    @contextmanager
    def watch(self, partitions: Iterable[TopicPartition]) -> Iterator[Watch]:
        """Take note of every commit to these partitions while the block lasts."""
        watch, own = Watch(), list(partitions)
        for partition in own:
            self._watches.setdefault(partition, set()).add(watch)
        self._somebody.set()
        try:
            yield watch
        finally:
            for partition in own:
                others = self._watches.get(partition)
                if others is not None:
                    others.discard(watch)
                    if not others:
                        del self._watches[partition]

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        """These partitions have these high watermarks now."""
        if not self._watches:
            return
        for partition, end in ends.items():
            for watch in self._watches.get(partition, ()):
                watch.committed(partition, end)

    def wake_all(self) -> None:
        """End every wait: the broker is about to stop."""
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()

    async def run(self) -> None:
        """Watch the metadata store for ever; an outage only makes fetches wait longer."""
        while True:
            if not self._watches:
                self._somebody.clear()
                await self._somebody.wait()
            try:
                await self._store.changed(self._poll_s)
                self.committed(await self._store.high_watermarks(list(self._watches)))
            except Transient:
                await asyncio.sleep(self._poll_s)
