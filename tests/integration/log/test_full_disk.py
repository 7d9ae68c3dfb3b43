"""Disks that fill up, for real: a file system of a few megabytes."""

from collections.abc import Callable
from pathlib import Path

from lakestream_spark.core.retry import Backoff
from lakestream_spark.objectstore.local import LocalStore
from lakestream_spark.objectstore.retrying import Retrying
from lakestream_spark.wal.writer import FlushPolicy
from tests.support.crowd import PROFILE, Crowd, open_writer
from tests.support.log import open_log
from tests.support.small_disk import fill

RETRIABLE = {"Unavailable", "OutcomeUnknown", "Overloaded"}
POLICY = FlushPolicy(max_age_ms=10, answer_within_ms=1_000)
IMPATIENT = Backoff(first_s=0.02, cap_s=0.1, total_s=0.3)


async def test_producers_get_retriable_errors_while_the_wal_disk_is_full_and_lose_nothing(
    small_disk: Callable[[int], Path], tmp_path: Path
):
    disk = small_disk(16)
    store = Retrying(LocalStore(disk), backoff=IMPATIENT)
    async with open_log(f"sqlite:///{tmp_path}/metadata.db", {PROFILE: store}) as log:
        await log.create_topics("orders", "clicks", partitions=2)
        crowd = await Crowd.gather(log, value_bytes=500)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(100)
            ballast = fill(disk)
            await crowd.until(lambda: crowd.errors.total() >= 50)
            assert set(crowd.errors) <= RETRIABLE
            ballast.unlink()
            await crowd.progress(100)
        await crowd.assert_sound()
        await log.assert_no_garbage()
        assert not list(disk.rglob(".tmp-*"))


async def test_producers_get_retriable_errors_while_the_metadata_disk_is_full_and_lose_nothing(
    small_disk: Callable[[int], Path], tmp_path: Path
):
    disk = small_disk(8)
    store = LocalStore(tmp_path)
    async with open_log(f"sqlite:///{disk}/metadata.db", {PROFILE: store}) as log:
        await log.create_topics("orders", "clicks", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(100)
            ballast = fill(disk)
            await crowd.until(lambda: crowd.errors.total() >= 50)
            assert set(crowd.errors) <= RETRIABLE
            ballast.unlink()
            await crowd.progress(100)
        await crowd.assert_sound()
        await log.assert_no_garbage()
