"""A metadata store that is gone, asleep or locked for ten seconds, or whose replies are lost."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from lakestream_spark.core.errors import OutcomeUnknown, Transient, Unavailable
from lakestream_spark.metadata import postgres
from lakestream_spark.metadata.database import Execute, Fetch, Rows, Transaction
from lakestream_spark.objectstore.local import LocalStore
from lakestream_spark.wal.receipt import Verdict
from lakestream_spark.wal.writer import FlushPolicy
from tests.support.batches import checked, make_batch
from tests.support.crowd import PROFILE, Crowd, open_writer
from tests.support.log import Log, open_log
from tests.support.postgres import PostgresServer
from tests.support.postgres_proxy import PostgresProxy, Side

GONE_S = 10.0
POLICY = FlushPolicy(max_age_ms=10, answer_within_ms=120_000)
IMPATIENT = FlushPolicy(max_age_ms=10, answer_within_ms=1_000)
_HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=120)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""
_FALL_ASLEEP_IN_A_TRANSACTION = """
import asyncio, os, signal, sys
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import open_metadata, postgres
from lakestream_spark.metadata.partitions import lock_partitions_of

postgres.ASLEEP_AFTER_S = 1.0

def transaction(topic_id):
    yield from lock_partitions_of(topic_id)
    print("locked", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

async def main(url, topic_id):
    metadata = await open_metadata(url, clock=SystemClock())
    await metadata.database.run(transaction(topic_id))

asyncio.run(main(*sys.argv[1:]))
"""


@asynccontextmanager
async def away(how: str, server: PostgresServer) -> AsyncIterator[None]:
    """PostgreSQL is of no use while the block lasts, then healthy again."""
    if how == "asleep":
        sleepers = await processes_of(server)
        try:
            tell(sleepers, signal.SIGSTOP)
            yield
        finally:
            tell(sleepers, signal.SIGCONT)
        return
    try:
        await asyncio.to_thread(server.kill if how == "killed" else server.stop)
        yield
    finally:
        await asyncio.to_thread(server.start)


def tell(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # a backend whose connection was closed just now
            process.send_signal(number)


async def processes_of(server: PostgresServer) -> list[psutil.Process]:
    connection = await asyncpg.connect(server.url())
    try:
        backend = psutil.Process(await connection.fetchval("SELECT pg_backend_pid()"))
        postmaster = psutil.Process(backend.ppid())
    finally:
        await connection.close()
    return [postmaster, *postmaster.children()]


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["killed", "asleep"])
async def test_producers_wait_for_a_postgresql_that_is_away_for_ten_seconds_and_lose_nothing(
    how: str, postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
):
    async with open_log(postgres_url, {PROFILE: LocalStore(tmp_path)}) as log:
        await log.create_topics("orders", "clicks", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(50)
            async with away(how, postgres_server):
                await asyncio.sleep(GONE_S)
            await crowd.progress(50)
        assert not crowd.errors
        await crowd.assert_sound()
        await log.assert_no_garbage()


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["stopped", "asleep"])
async def test_callers_are_answered_in_time_while_postgresql_is_away(
    how: str, postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
):
    async with open_log(postgres_url, {PROFILE: LocalStore(tmp_path)}) as log:
        await log.create_topics("orders", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, IMPATIENT) as writer, crowd.at_work(writer):
            await crowd.progress(50)
            before = crowd.errors.total()
            async with away(how, postgres_server):
                # It comes back only when they were told: nobody waits for its return.
                await crowd.until(lambda: crowd.errors.total() > before)
            await crowd.progress(50)
        assert set(crowd.errors) <= {"OutcomeUnknown", "Overloaded", "Unavailable"}
        await crowd.assert_sound()


async def test_producers_wait_while_another_process_locks_sqlite_for_ten_seconds_and_lose_nothing(
    tmp_path: Path,
):
    path = tmp_path / "metadata.db"
    async with open_log(f"sqlite:///{path}", {PROFILE: LocalStore(tmp_path / "wal")}) as log:
        await log.create_topics("orders", "clicks", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(50)
            with subprocess.Popen(
                [sys.executable, "-c", _HOLD_THE_LOCK, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as locker:
                assert locker.stdout is not None
                assert await asyncio.to_thread(locker.stdout.readline) == b"locked\n"
                before = len(crowd.history.acks)
                await asyncio.sleep(GONE_S)
                assert len(crowd.history.acks) <= before + 100  # at most what was on its way
                locker.communicate()
            await crowd.progress(50)
        assert not crowd.errors
        await crowd.assert_sound()


@pytest.mark.postgres
@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_commit_whose_reply_is_lost_is_repeated_and_gets_the_first_answer(
    side: Side, postgres_url: str, tmp_path: Path
):
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(PostgresProxy(postgres_url))
        store = LocalStore(tmp_path)
        log: Log = await stack.enter_async_context(open_log(proxy.url, {PROFILE: store}))
        await log.create_topics("orders", partitions=1)
        (partition,) = log.partitions
        outcomes: list[str] = []

        class Watched:
            """The sequencer, with a note of each outcome."""

            async def commit(self, segment):
                try:
                    receipt = await log.metadata.sequencer.commit(segment)
                except OutcomeUnknown:
                    outcomes.append("unknown")
                    raise
                outcomes.append("known")
                return receipt

        writer = await stack.enter_async_context(open_writer(log, POLICY, sequencer=Watched()))
        batch = make_batch([b"a", b"b"], producer_id=7, epoch=0, sequence=0)
        proxy.cut_commits(side)
        (answer,) = await writer.append(partition, checked(batch))
        assert proxy.cut == [side]
        assert outcomes == ["unknown", "known"]
        # Not a duplicate: the segment was repeated, the batch was not sent again.
        assert (answer.verdict, answer.base_offset) == (Verdict.ACCEPTED, 0)
        (again,) = await writer.append(partition, checked(batch))
        assert (again.verdict, again.base_offset) == (Verdict.DUPLICATE, 0)
        assert (await log.read_all())[str(partition)] == [(0, "a"), (1, "b")]


@pytest.mark.postgres
async def test_a_crowd_does_not_notice_that_many_replies_are_lost(
    postgres_url: str, tmp_path: Path
):
    async with (
        PostgresProxy(postgres_url) as proxy,
        open_log(proxy.url, {PROFILE: LocalStore(tmp_path)}) as log,
    ):
        await log.create_topics("orders", "clicks", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            for _ in range(10):
                await crowd.progress(20)
                proxy.cut_commits("after", "after", "before", "after")
            await crowd.until(lambda: len(proxy.cut) == 40)
        assert not crowd.errors
        await crowd.assert_sound()


@pytest.mark.postgres
async def test_a_process_that_falls_asleep_in_a_transaction_does_not_hold_up_the_others(
    postgres_url: str, tmp_path: Path
):
    async with open_log(postgres_url, {PROFILE: LocalStore(tmp_path)}) as log:
        await log.create_topics("orders", partitions=1)
        (partition,) = log.partitions
        command = [sys.executable, "-c", _FALL_ASLEEP_IN_A_TRANSACTION]
        with subprocess.Popen(
            [*command, postgres_url, str(partition.topic_id)], stdout=subprocess.PIPE
        ) as sleeper:
            assert sleeper.stdout is not None
            try:
                assert await asyncio.to_thread(sleeper.stdout.readline) == b"locked\n"
                async with open_writer(log, POLICY) as writer, asyncio.timeout(120):
                    (answer,) = await writer.append(partition, checked(make_batch([b"a"])))
                assert answer.base_offset == 0
            finally:
                sleeper.kill()


@pytest.mark.postgres
@pytest.mark.parametrize("before", ["another statement", "its commit"])
async def test_a_process_that_slept_in_a_transaction_may_try_again(
    before: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    async with open_log(postgres_url, {}):
        pass  # The tables are made by a process that may take its time.
    monkeypatch.setattr(postgres, "ASLEEP_AFTER_S", 0.2)

    def transaction(asleep_s: float) -> Transaction[None]:
        yield Execute("CREATE TABLE IF NOT EXISTS woken (a INTEGER)")
        time.sleep(asleep_s)  # the whole process: its event loop does not turn either
        if before == "another statement":
            yield Execute("INSERT INTO woken VALUES (1)")

    async with open_log(postgres_url, {}) as log:
        with pytest.raises(Transient):
            await log.metadata.database.run(transaction(0.6))
        async with asyncio.timeout(120):
            while True:
                with suppress(Transient):  # a busy machine falls asleep against its will
                    await log.metadata.database.run(transaction(0.0))
                    break


@pytest.mark.postgres
async def test_a_connection_that_the_server_ends_in_a_statement_is_an_error_to_retry(
    postgres_url: str,
):
    def doomed() -> Transaction[None]:
        yield Execute("SELECT pg_terminate_backend(pg_backend_pid())")

    def healthy() -> Transaction[Rows]:
        return (yield Fetch("SELECT 1"))

    async with open_log(postgres_url, {}) as log:
        database = log.metadata.database
        for _ in range(2 * postgres.CONNECTIONS):
            with pytest.raises(Transient):
                await database.run(doomed())
            with pytest.raises(Transient):
                await database.read(doomed())
        assert [tuple(row) for row in await database.run(healthy())] == [(1,)]
        assert [tuple(row) for row in await database.read(healthy())] == [(1,)]


class _HalfDead:
    """A connection after the server said that it shuts down, but before it hung up; and its pool.

    The driver then refuses every further statement with an error of its own.
    """

    def __init__(self) -> None:
        self.terminated = False

    @asynccontextmanager
    async def acquire(self, **_: object) -> AsyncIterator["_HalfDead"]:
        yield self

    async def execute(self, sql: str) -> None:
        if not sql.startswith("BEGIN"):
            raise asyncpg.InternalClientError("cannot switch to state 12; another operation")

    async def fetch(self, sql: str) -> None:
        raise asyncpg.AdminShutdownError("terminating connection due to administrator command")

    def terminate(self) -> None:
        self.terminated = True


@pytest.mark.parametrize("dies_in", ["a statement", "its commit"])
async def test_a_connection_that_is_half_dead_is_an_error_to_retry_and_never_used_again(
    dies_in: str,
):
    def transaction() -> Transaction[None]:
        if dies_in == "a statement":
            yield Execute("SELECT 1")

    connection = _HalfDead()
    with pytest.raises(OutcomeUnknown if dies_in == "its commit" else Unavailable):
        await postgres.PostgresDatabase(connection, connection).run(transaction())
    assert connection.terminated
