"""The peers of the data path: the least that moves the same bytes, with none of our promises."""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeAlias

import obstore

from lakestream_spark.core.ids import SegmentId
from lakestream_spark.objectstore.cloud import CloudStore
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.ports import ExtentLocation

UPLOADS: Final = 4
"""So many objects are on their way at once, as in a WAL writer."""
Call: TypeAlias = dict[SegmentId, list[ExtentLocation]]
"""The ranges that one read call needs, by segment."""


def write_object(folder: Path, number: int, data: bytes) -> None:
    """The least that makes a file durable: write, sync, rename, sync the folder."""
    hidden = folder / f".{number}"
    with hidden.open("wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    hidden.rename(folder / str(number))
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


async def write_objects(folder: Path, pool: ThreadPoolExecutor, objects: Sequence[bytes]) -> None:
    loop = asyncio.get_running_loop()
    writes = [
        loop.run_in_executor(pool, write_object, folder, number, data)
        for number, data in enumerate(objects)
    ]
    await asyncio.gather(*writes)


async def put_objects(store: CloudStore, objects: Sequence[bytes]) -> None:
    slots = asyncio.Semaphore(UPLOADS)

    async def put(number: int, data: bytes) -> None:
        async with slots:
            await obstore.put_async(store.bucket, f"plain/{number}", data, use_multipart=False)

    await asyncio.gather(*(put(n, data) for n, data in enumerate(objects)))


async def empty(store: CloudStore) -> None:
    await store.delete([info.key async for info in store.list("")])


async def copy_ranges(calls: list[Call], cache: WalCache) -> None:
    for call in calls:
        for extents in call.values():
            for extent in extents:
                found = cache.get(extent.segment_id, extent.position, extent.length)
                assert found is not None
                bytes(found)


async def pread_ranges(calls: list[Call], folder: Path) -> None:
    def read(call: Call) -> None:
        for segment_id, extents in call.items():
            fd = os.open(folder / segment_key(segment_id), os.O_RDONLY)
            for extent in extents:
                os.pread(fd, extent.length, extent.position)
            os.close(fd)

    for call in calls:
        await asyncio.get_running_loop().run_in_executor(None, read, call)


async def get_ranges(calls: list[Call], store: CloudStore) -> None:
    for call in calls:
        await asyncio.gather(
            *(
                obstore.get_ranges_async(
                    store.bucket,
                    segment_key(segment_id),
                    starts=[extent.position for extent in extents],
                    lengths=[extent.length for extent in extents],
                )
                for segment_id, extents in call.items()
            )
        )


def forget_pages(folder: Path, pattern: str = "*.seg") -> None:
    """Drop files, segments unless told otherwise, from the page cache: the disk is asked."""
    for path in folder.rglob(pattern):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
