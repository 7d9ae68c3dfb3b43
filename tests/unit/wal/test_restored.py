"""A metadata store that is older than its bucket is noticed; a crashed writer is not mistaken."""

import shutil
from pathlib import Path

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.core.ids import BrokerId, SegmentId
from lakestream_spark.metadata import open_metadata
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.restored import refuse_restored_metadata
from tests.support.memory_log import PROFILE, MemoryLog, memory_log


async def look(path: Path, store: ObjectStore) -> None:
    metadata = await open_metadata(f"sqlite:///{path}", clock=SystemClock())
    try:
        await refuse_restored_metadata(store, metadata.writers)
    finally:
        await metadata.close()


async def back_up(log: MemoryLog, path: Path, copy: Path) -> None:
    """A consistent copy, as SQLite's own back-up makes one."""
    await log.metadata.topics.list()
    shutil.copy(path, copy)
    wal = path.with_name(path.name + "-wal")
    if wal.exists():
        shutil.copy(wal, copy.with_name(copy.name + "-wal"))


async def test_a_back_up_without_the_newest_commits_is_refused(tmp_path: Path) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "old.db"
    async with memory_log(url=f"sqlite:///{path}") as log:
        (p,) = await log.topic("t")
        await log.append(p, b"1")
        await back_up(log, path, copy)
        await log.append(p, b"2")
        await log.append(p, b"3")
        await look(path, log.store)
        with pytest.raises(Misconfigured, match=r"older than the bucket.*carries_receipt_of=2"):
            await look(copy, log.store)


async def test_a_back_up_from_before_a_registration_is_refused(tmp_path: Path) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "old.db"
    async with memory_log(url=f"sqlite:///{path}") as log:
        await back_up(log, path, copy)
        newer = await log.metadata.writers.register(BrokerId(2), PROFILE)
        await log.store.put(
            segment_key(SegmentId(BrokerId(2), newer.broker_epoch, 1)), b"whatever it holds"
        )
        with pytest.raises(Misconfigured, match=r"older than the bucket.*newest_known_epoch"):
            await look(copy, log.store)


async def test_uploads_that_a_crash_left_uncommitted_are_no_sign_of_a_back_up(
    tmp_path: Path,
) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "same.db"
    async with memory_log(url=f"sqlite:///{path}") as log:
        (p,) = await log.topic("t")
        await log.append(p, b"1")
        await back_up(log, path, copy)
        await log.append(p, b"2")
    # Segment 2 carries the receipt of 1, which the copy knows: to it, 2 was never committed.
    await look(copy, log.store)
