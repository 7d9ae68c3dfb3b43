"""A metadata store restored from a back-up is noticed and refused; a crashed one is not."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.objectstore.local import LocalStore
from lakestream_spark.wal.restored import refuse_restored_metadata
from lakestream_spark.wal.writer import FlushPolicy
from tests.support.crowd import PROFILE, Crowd, open_writer
from tests.support.log import open_log

POLICY = FlushPolicy(max_age_ms=5)


def back_up(database: Path, copy: Path) -> None:
    """What `sqlite3 metadata.db ".backup copy.db"` does, while others write."""
    with closing(sqlite3.connect(database)) as live, closing(sqlite3.connect(copy)) as target:
        live.backup(target)


def restore(copy: Path, database: Path) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    copy.replace(database)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "wal")


async def check_start(database: Path, store: LocalStore) -> None:
    """What a broker does before it registers."""
    async with open_log(f"sqlite:///{database}", {PROFILE: store}) as log:
        await refuse_restored_metadata(store, log.metadata.writers)


async def test_a_backup_from_before_a_broker_started_is_refused(
    database: Path, copy: Path, store: LocalStore
):
    async with open_log(f"sqlite:///{database}", {PROFILE: store}) as log:
        await log.create_topics("orders", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(20)
        back_up(database, copy)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(20)
    await check_start(database, store)
    restore(copy, database)
    with pytest.raises(Misconfigured, match=r"older than the bucket.*newest_known_epoch="):
        await check_start(database, store)


async def test_a_backup_made_while_a_broker_was_writing_is_refused(
    database: Path, copy: Path, store: LocalStore
):
    async with open_log(f"sqlite:///{database}", {PROFILE: store}) as log:
        await log.create_topics("orders", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(20)
            back_up(database, copy)
            await crowd.progress(100)
    await check_start(database, store)
    restore(copy, database)
    with pytest.raises(Misconfigured, match=r"older than the bucket.*carries_receipt_of="):
        await check_start(database, store)


async def test_a_backup_with_which_nothing_is_lost_is_accepted(
    database: Path, copy: Path, store: LocalStore
):
    async with open_log(f"sqlite:///{database}", {PROFILE: store}) as log:
        await log.create_topics("orders", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(20)
        back_up(database, copy)
    restore(copy, database)
    await check_start(database, store)
    async with open_log(f"sqlite:///{database}", {PROFILE: store}) as again:
        again.topics = await again.metadata.topics.list()
        assert sum(map(len, (await again.read_all()).values())) == sum(
            len(ack.values) for ack in crowd.history.acks
        )
