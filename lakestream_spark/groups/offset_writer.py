"""Offset commits of one slot: those that wait go into one transaction, in order of arrival.

What always holds: a commit that was accepted earlier is stored earlier, so that one of an old
generation never overwrites one of the next; a commit is answered after it is durable.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.group_offsets import Commit, GroupOffsets
from lakestream_spark.metadata.leases import Lease

Unknown = set[TopicPartition]


class _Waiting(NamedTuple):
    commits: Sequence[Commit]
    done: asyncio.Future[Unknown]


class OffsetWriter:
    """The only one that commits under a lease; it runs while commits wait."""

    def __init__(self, store: GroupOffsets, lease: Lease, slot: int) -> None:
        self._store = store
        self._lease = lease
        self._slot = slot
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def commit(self, commits: Sequence[Commit]) -> Unknown:
        """The partitions among them that do not exist; raises `Fenced` when the lease is lost."""
        done: asyncio.Future[Unknown] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(commits, done))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name=f"offsets-{self._lease.name}")
        return await done

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._store_batch(batch)
        finally:
            self._task = None

    async def _store_batch(self, batch: list[_Waiting]) -> None:
        commits = [commit for waiting in batch for commit in waiting.commits]
        try:
            unknown = await self._store.commit(self._lease, self._slot, commits)
        except LakestreamError as error:
            for _, done in batch:
                if not done.done():
                    done.set_exception(error.again())
        except BaseException:
            for _, done in batch:
                done.cancel()
            raise
        else:
            for _, done in batch:
                if not done.done():
                    done.set_result(unknown)
