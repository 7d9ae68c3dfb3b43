"""Leases: who holds them, when they change hands, and what a zombie can still do."""

import asyncio
import threading
from collections.abc import Callable

import asyncpg
import pytest

from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata import Metadata, tables
from lakestream_spark.metadata.database import Exclusive, Fetch, Transaction
from lakestream_spark.metadata.leases import Leases
from lakestream_spark.metadata.tables import Intent
from tests.contract.metadata.conftest import POSTGRES
from tests.support.metadata import header, stored

SESSION_S = 10.0
PAUSE_KEY = 4711


@pytest.fixture
def challenger(metadata, clock):
    """The leases as another process sees them."""
    return Leases(metadata.database, clock)


async def test_a_free_lease_is_taken_at_once_by_one(metadata, challenger):
    lease = await metadata.leases.try_acquire("t", "a", SESSION_S)
    assert lease == ("t", "a", 1)
    assert await challenger.try_acquire("t", "b", SESSION_S) is None
    assert (await challenger.try_acquire("other", "b", SESSION_S)).epoch == 1


async def test_of_many_who_want_a_free_lease_one_gets_it(metadata, clock):
    wanting = [
        Leases(metadata.database, clock).try_acquire("t", f"h{n}", SESSION_S) for n in range(8)
    ]
    leases = [lease for lease in await asyncio.gather(*wanting) if lease is not None]
    assert len(leases) == 1


async def test_the_holder_gets_its_own_lease_again(metadata):
    first = await metadata.leases.try_acquire("t", "a", SESSION_S)
    assert await metadata.leases.try_acquire("t", "a", SESSION_S) == first


async def test_the_same_name_in_another_process_is_not_the_holder(metadata, challenger):
    await metadata.leases.try_acquire("t", "a", SESSION_S)
    assert await challenger.try_acquire("t", "a", SESSION_S) is None


async def test_a_lease_that_stands_still_for_the_session_time_is_taken(metadata, challenger, clock):
    old = await metadata.leases.try_acquire("t", "a", SESSION_S)
    assert await challenger.try_acquire("t", "b", SESSION_S) is None
    await clock.advance(SESSION_S - 0.1)
    assert await challenger.try_acquire("t", "b", SESSION_S) is None
    await clock.advance(0.1)
    lease = await challenger.try_acquire("t", "b", SESSION_S)
    assert (lease.holder, lease.epoch) == ("b", old.epoch + 1)
    with pytest.raises(Fenced):
        await metadata.leases.renew(old)


async def test_a_challenger_that_was_away_sees_the_first_time_again(metadata, challenger, clock):
    await metadata.leases.try_acquire("t", "a", SESSION_S)
    await clock.advance(100 * SESSION_S)
    assert await challenger.try_acquire("t", "b", SESSION_S) is None


async def test_a_renewed_lease_is_not_taken(metadata, challenger, clock):
    lease = await metadata.leases.try_acquire("t", "a", SESSION_S)
    for _ in range(5):
        assert await challenger.try_acquire("t", "b", SESSION_S) is None
        await clock.advance(SESSION_S)
        await metadata.leases.renew(lease)
    assert await challenger.try_acquire("t", "b", SESSION_S) is None


async def test_a_released_lease_is_free_and_its_epoch_goes_on(metadata, challenger):
    lease = await metadata.leases.try_acquire("t", "a", SESSION_S)
    await metadata.leases.release(lease)
    with pytest.raises(Fenced):
        await metadata.leases.renew(lease)
    assert (await challenger.try_acquire("t", "b", SESSION_S)).epoch == lease.epoch + 1


async def test_releasing_a_lost_lease_changes_nothing(metadata, challenger):
    lost = await metadata.leases.try_acquire("t", "a", SESSION_S)
    await metadata.leases.release(lost)
    newer = await challenger.try_acquire("t", "b", SESSION_S)
    await metadata.leases.release(lost)
    await challenger.renew(newer)


class Pause:
    """Holds a transaction open in the middle, in the store's own way."""

    def __init__(self, blocker: asyncpg.Connection | None) -> None:
        self._blocker = blocker
        self._gate = threading.Event()
        self.reached = threading.Event()

    def after_guard(self, tx: Transaction[None]) -> Transaction[None]:
        """The transaction, held right after it has checked its lease."""
        statement = next(tx)
        while True:
            rows = yield statement
            sql = statement.sql if isinstance(statement, Fetch) else ""
            if "FROM leases" in sql and "FOR SHARE" in sql:
                self.reached.set()
                if self._blocker is None:
                    self._gate.wait(120)
                yield Exclusive(PAUSE_KEY)
            try:
                statement = tx.send(rows)
            except StopIteration:
                return

    async def end(self) -> None:
        self._gate.set()
        if self._blocker is not None:
            await self._blocker.execute("SELECT pg_advisory_unlock($1)", PAUSE_KEY)


@pytest.fixture
async def pause(store: str, url: str):
    if store != POSTGRES:
        yield Pause(None)
        return
    blocker = await asyncpg.connect(url)
    await blocker.execute("SELECT pg_advisory_lock($1)", PAUSE_KEY)
    yield Pause(blocker)
    await blocker.close()


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not reached():
            await asyncio.sleep(0.01)


@pytest.fixture
async def held(metadata, writer, partition):
    """A lease, and two offsets that its holder may move into the table."""
    await metadata.sequencer.commit(stored(writer, 1, (partition, [header(2)])))
    return await metadata.leases.try_acquire("t", "zombie", SESSION_S)


async def _table_end(metadata: Metadata, partition: TopicPartition) -> int:
    return (await metadata.tables.ends(partition.topic_id))[0].table_end


async def test_the_next_holder_waits_for_a_write_that_passed_the_check(
    metadata, challenger, clock, partition, held, pause
):
    await challenger.try_acquire("t", "next", SESSION_S)
    await clock.advance(SESSION_S)
    move = tables.Move(partition.topic_id, {0: 2}, ())
    finish = tables._finish(held, move, [], clock.wall_ms())
    zombie = asyncio.create_task(metadata.database.run(pause.after_guard(finish)))
    await _until(pause.reached.is_set)
    taking = asyncio.create_task(challenger.try_acquire("t", "next", SESSION_S))
    done, _ = await asyncio.wait([taking], timeout=0.3)
    assert not done, "the lease changed hands while a write under it was open"
    await pause.end()
    await zombie
    lease = await taking
    assert lease is not None
    assert await _table_end(metadata, partition) == 2
    await metadata.tables.finish(lease, partition.topic_id, "c", {0: 2})


async def test_a_zombie_that_comes_after_the_next_holder_changes_nothing(
    metadata, challenger, clock, partition, held
):
    await challenger.try_acquire("t", "next", SESSION_S)
    await clock.advance(SESSION_S)
    assert await challenger.try_acquire("t", "next", SESSION_S) is not None
    with pytest.raises(Fenced):
        await metadata.tables.finish(held, partition.topic_id, "c", {0: 2})
    intent = Intent(topic_id=partition.topic_id, commit_id="c", plan=1, body={})
    with pytest.raises(Fenced):
        await metadata.tables.save_intent(held, intent)
    assert await _table_end(metadata, partition) == 0
    assert await metadata.tables.intent(partition.topic_id) is None
