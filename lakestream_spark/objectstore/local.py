"""A folder as an object store, every object synced to the disk before `put` returns.

Each call is one hop to a small thread pool of the store, so the event loop never waits for a disk.
"""

import asyncio
import itertools
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import Misconfigured, Unavailable
from lakestream_spark.objectstore import files
from lakestream_spark.objectstore.os_errors import cannot_read, cannot_write
from lakestream_spark.objectstore.store import (
    Data,
    ObjectInfo,
    Ranges,
    check_key,
    check_prefix,
    check_ranges,
    check_same,
    short_read,
)

T = TypeVar("T")
Args = TypeVarTuple("Args")

_PAGE = 1_000
_TRIES = 3


class LocalStore:
    """Objects as files below one folder of this host."""

    def __init__(self, root: Path, *, clock: Clock | None = None, threads: int = 8) -> None:
        if not root.is_absolute():
            raise Misconfigured("the folder of a file:// store must be absolute", folder=root)
        self._root = os.path.normpath(root)
        self._url = Path(self._root).as_uri()
        self._clock = clock or SystemClock()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakestream-files")
        self._durable_folders: set[str] = set()
        self._writer = secrets.token_hex(8)
        self._written = itertools.count()

    @property
    def url(self) -> str:
        return self._url

    async def put(self, key: str, data: Data) -> None:
        check_key(key)
        try:
            await self._in_thread(self._put, key, data)
        except OSError as error:
            raise cannot_write(error, self._url, key) from error

    async def get(self, key: str) -> bytes:
        check_key(key)
        try:
            return await self._in_thread(files.read, self._path(key))
        except OSError as error:
            raise cannot_read(error, self._url, key) from error

    async def get_ranges(self, key: str, starts: Sequence[int], lengths: Sequence[int]) -> Ranges:
        check_key(key)
        check_ranges(starts, lengths)
        try:
            found = await self._in_thread(files.read_ranges, self._path(key), starts, lengths)
        except OSError as error:
            raise cannot_read(error, self._url, key) from error
        for start, n, data in zip(starts, lengths, found, strict=True):
            if len(data) != n:
                raise short_read(self._url, key, start=start, expected=n, actual=len(data))
        return [memoryview(data) for data in found]

    async def head(self, key: str) -> int:
        check_key(key)
        try:
            return await self._in_thread(files.size, self._path(key))
        except OSError as error:
            raise cannot_read(error, self._url, key) from error

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        try:
            await self._in_thread(files.remove, [self._path(key) for key in keys])
        except OSError as error:
            raise cannot_write(error, self._url, ", ".join(keys[:3])) from error

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        check_prefix(prefix)
        folder = self._path(prefix).removesuffix("/")
        found = files.walk(folder, prefix, now_ms=self._clock.wall_ms())
        while page := await self._next_page(found, prefix):
            for info in page:
                yield info

    async def _next_page(self, found: Iterator[ObjectInfo], prefix: str) -> tuple[ObjectInfo, ...]:
        try:
            return await self._in_thread(tuple, itertools.islice(found, _PAGE))
        except OSError as error:
            raise cannot_read(error, self._url, prefix) from error

    def _put(self, key: str, data: Data) -> None:
        path = self._path(key)
        folder = path.rpartition("/")[0]
        for _ in range(_TRIES):
            try:
                if folder not in self._durable_folders:
                    files.make_folders(folder, self._root)
                    self._durable_folders.add(folder)
                files.create(path, data, temporary=f"{self._writer}-{next(self._written)}")
                return
            except FileExistsError:
                check_same(self._url, key, files.read(path), data)
                files.sync_existing(path)
                return
            except FileNotFoundError:
                # A listing removed the folder, empty for long, just before we wrote into it.
                self._durable_folders.discard(folder)
        raise Unavailable(f"the folders of {self._url} vanish while they are written", key=key)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    async def _in_thread(self, call: Callable[[*Args], T], *args: *Args) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)
