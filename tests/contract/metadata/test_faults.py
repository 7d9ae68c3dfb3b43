"""A store that is busy, full or gone: which error says so, and that nothing is left half done."""

import asyncio
import sqlite3
import sys

import asyncpg
import pytest

from lakestream_spark.core.errors import (
    Corrupt,
    Misconfigured,
    OutcomeUnknown,
    Transient,
    Unavailable,
)
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata import open_metadata, sqlite
from lakestream_spark.metadata.database import Exclusive, Execute, Fetch, Rows, Transaction
from tests.support.clock import SimulatedClock
from tests.support.metadata import answers, header, stored

KEY = 4712
INSERT = "INSERT INTO plans (number, created_ms, body) VALUES (1, 0, '')"
HANG_AT_COMMIT = f"""
    CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock({KEY}); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER hang AFTER INSERT ON plans
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hang();
"""
LOCK_PLAN = "SELECT number FROM plans WHERE number = $1 FOR UPDATE"
TERMINATE_WAITING = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'
"""


def insert_plan() -> Transaction[None]:
    yield Execute(INSERT)


def insert_plan_and_wait() -> Transaction[None]:
    yield Execute(INSERT)
    yield Exclusive(KEY)


@pytest.fixture
async def on_postgres(postgres_url):
    metadata = await open_metadata(postgres_url, clock=SimulatedClock())
    yield metadata
    await metadata.close()


@pytest.fixture
async def blocker(postgres_url):
    """A connection that holds the lock on which the transactions above hang."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("SELECT pg_advisory_lock($1)", KEY)
    yield connection
    await connection.close()


async def _terminate_waiting(blocker) -> None:
    async with asyncio.timeout(120):
        while not await blocker.fetch(TERMINATE_WAITING):
            await asyncio.sleep(0.02)


@pytest.mark.postgres
async def test_a_connection_lost_before_commit_means_nothing_happened(on_postgres, blocker):
    running = asyncio.create_task(on_postgres.database.run(insert_plan_and_wait()))
    await _terminate_waiting(blocker)
    with pytest.raises(Unavailable):
        await running
    assert await on_postgres.tables.latest_plan() is None


@pytest.mark.postgres
async def test_a_connection_lost_while_committing_means_the_outcome_is_unknown(
    on_postgres, blocker
):
    await blocker.execute(HANG_AT_COMMIT)
    running = asyncio.create_task(on_postgres.database.run(insert_plan()))
    await _terminate_waiting(blocker)
    with pytest.raises(OutcomeUnknown):
        await running


@pytest.mark.postgres
async def test_a_cancelled_transaction_is_rolled_back_and_its_connection_is_usable(
    on_postgres, blocker
):
    for _ in range(6):
        running = asyncio.create_task(on_postgres.database.run(insert_plan_and_wait()))
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await blocker.execute("SELECT pg_advisory_unlock($1)", KEY)
    await on_postgres.database.run(insert_plan_and_wait())


@pytest.mark.postgres
async def test_a_deadlock_is_a_reason_to_try_again(on_postgres):
    for _ in range(2):
        await on_postgres.tables.create_plan({})

    held: set[int] = set()

    def lock(first: int, second: int) -> Transaction[None]:
        yield Fetch(LOCK_PLAN, (first,))
        held.add(first)
        while len(held) < 2:  # each has its first before anybody wants its second
            yield Fetch("SELECT pg_sleep(0.01)")
        yield Fetch(LOCK_PLAN, (second,))

    results = await asyncio.gather(
        on_postgres.database.run(lock(1, 2)),
        on_postgres.database.run(lock(2, 1)),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "Transient"]


@pytest.mark.postgres
async def test_commits_go_on_after_the_server_was_killed(on_postgres, postgres_server):
    writer = await on_postgres.writers.register(BrokerId(1), "cost")
    topic = await on_postgres.topics.create("orders")
    first = stored(writer, 1, (TopicPartition(topic.id, 0), [header(2)]))
    second = stored(writer, 2, (TopicPartition(topic.id, 0), [header(2)]))
    await on_postgres.sequencer.commit(first)
    postgres_server.kill()
    try:
        for call in (on_postgres.sequencer.commit, on_postgres.sequencer.commit):
            with pytest.raises(Transient):
                await call(second)
        with pytest.raises(Transient):
            await on_postgres.topics.list()
    finally:
        postgres_server.start()
    assert answers(second, await on_postgres.sequencer.commit(second))[0][0].base_offset == 2
    assert [topic.name for topic in await on_postgres.topics.list()] == ["orders"]


@pytest.mark.postgres
async def test_a_server_that_does_not_know_the_database_is_a_wrong_setting(postgres_server):
    url = postgres_server.url().replace("/postgres?", "/nowhere?")
    with pytest.raises(Misconfigured, match="refuses"):
        await open_metadata(url, clock=SimulatedClock())


async def test_a_server_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(Unavailable):
        await open_metadata(f"postgresql://u@/db?host={tmp_path}", clock=SimulatedClock())


async def test_without_the_driver_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "lakestream_spark.metadata.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(Misconfigured, match=r"pip install 'lakestream-spark\[postgres\]'"):
        await open_metadata("postgresql://u@h/db", clock=SimulatedClock())


@pytest.mark.parametrize("url", ["mysql://x", "sqlite:relative.db", "sqlite://host/x", "x", ""])
async def test_another_url_is_refused(url):
    with pytest.raises(Misconfigured, match="sqlite://"):
        await open_metadata(url, clock=SimulatedClock())


async def test_a_held_write_lock_is_unavailable_and_readers_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "metadata.db"
    metadata = await open_metadata(f"sqlite:///{path}", clock=SimulatedClock())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="write lock"):
        await metadata.topics.create("orders")
    assert await metadata.topics.list() == []
    other.execute("ROLLBACK")
    await metadata.topics.create("orders")
    other.close()
    await metadata.close()


async def test_a_full_disk_is_unavailable_and_nothing_is_lost(tmp_path):
    metadata = await open_metadata(f"sqlite:///{tmp_path}/m.db", clock=SimulatedClock())
    writer = await metadata.writers.register(BrokerId(1), "cost")
    topic = await metadata.topics.create("orders", partitions=2000)
    extents = [(TopicPartition(topic.id, index), [header()]) for index in range(2000)]

    def limit(pages: int) -> Transaction[Rows]:
        return (yield Fetch(f"PRAGMA max_page_count = {pages}"))

    await metadata.database.run(limit(1))
    segment = stored(writer, 1, *extents)
    with pytest.raises(Unavailable, match="disk is full"):
        await metadata.sequencer.commit(segment)
    assert (await metadata.tables.ends(topic.id))[0].high_watermark == 0
    await metadata.database.run(limit(100_000))
    receipt = await metadata.sequencer.commit(segment)
    assert {extent.base_offset for extent in receipt.extents} == {0}
    await metadata.close()


async def test_a_file_that_is_no_database_is_reported_as_damage(tmp_path):
    path = tmp_path / "metadata.db"
    path.write_bytes(b"not a database, but long enough to have a header" * 50)
    with pytest.raises(Corrupt):
        await open_metadata(f"sqlite:///{path}", clock=SimulatedClock())


async def test_a_folder_that_cannot_be_made_is_a_wrong_setting(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="cannot be opened"):
        await open_metadata(f"sqlite:///{tmp_path}/file/m.db", clock=SimulatedClock())


async def test_an_sqlite_store_survives_being_closed_and_opened(tmp_path):
    url = f"sqlite:///{tmp_path}/below/m.db"
    metadata = await open_metadata(url, clock=SimulatedClock())
    topic = await metadata.topics.create("orders")
    await metadata.close()
    again = await open_metadata(url, clock=SimulatedClock())
    assert await again.topics.get("orders") == topic
    await again.close()
