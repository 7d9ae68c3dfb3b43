"""The coordinator on one broker: timers, the store's failures, expiry, order of commits."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.core.errors import OutcomeUnknown, Unavailable
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.groups import GroupLimits, GroupService
from lakestream_spark.groups.messages import Caller, Sync
from lakestream_spark.groups.slots import SLOTS, lease_name, slot_of
from lakestream_spark.groups.subscription import subscribed_topics
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.brokers import Node
from lakestream_spark.metadata.database import Execute, Transaction
from lakestream_spark.metadata.group_offsets import Committed
from lakestream_spark.metadata.store import services
from tests.support.clock import SimulatedClock
from tests.support.coordinators import Phonebook, coordinator, join_request
from tests.support.group_driver import subscription
from tests.support.sqlite import InlineSqlite

T = TypeVar("T")

GROUP = "g"
LIMITS = GroupLimits(offsets_retention_ms=1000, lease_session_ms=6000, lease_renew_ms=1500)
NONE = ErrorCode.none


class FailingSqlite(InlineSqlite):
    """A store that raises what a test puts there, before or instead of doing its work."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.writes = 0

    async def run(self, tx: Transaction[T]) -> T:
        self.writes += 1
        if self.failure is not None:
            tx.close()
            raise self.failure
        return await super().run(tx)


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def database() -> FailingSqlite:
    return FailingSqlite()


@pytest.fixture
async def metadata(database: FailingSqlite, clock: SimulatedClock) -> AsyncIterator[Metadata]:
    opened = await services(database, clock)
    yield opened
    await opened.close()


@pytest.fixture
async def partition(metadata: Metadata) -> TopicPartition:
    return TopicPartition((await metadata.topics.create("orders", partitions=2)).id, 0)


@pytest.fixture
async def service(metadata: Metadata, clock: SimulatedClock) -> AsyncIterator[GroupService]:
    made = coordinator(metadata, Phonebook(["a", "b"]), "a", clock, LIMITS)
    running = asyncio.create_task(made.run())
    assert await made.coordinator(GROUP) is not None
    yield made
    running.cancel()
    await asyncio.wait([running])


async def stable(service: GroupService, **changes: object) -> Caller:
    joined = await service.join(GROUP, join_request(**changes))  # type: ignore[arg-type]
    caller = Caller(joined.member_id, None, joined.generation)
    assert (await service.sync(GROUP, Sync(caller=caller, assignments={}))).error is NONE
    return caller


def test_slots_are_stable_and_spread():
    assert (slot_of("g"), slot_of("orders-app"), slot_of("")) == (54, 48, 0)
    assert len({slot_of(f"group-{n}") for n in range(1000)}) == SLOTS


@pytest.mark.parametrize(
    ("metadata_bytes", "topics"),
    [
        (subscription("a", "b"), {"a", "b"}),
        (subscription(), set()),
        (subscription("a") + b"more", {"a"}),
        (b"", None),
        (b"\0\0\0\0\0\x01\0\x09a", None),
        (b"\0\0\xff\xff\xff\xff", None),
        (b"\0\0\0\0\0\x01\0\x01\xff", None),
        (b"\0\0\x7f\xff\xff\xff", None),
    ],
)
def test_topics_are_read_from_a_subscription(metadata_bytes, topics):
    assert subscribed_topics(metadata_bytes) == topics


async def test_the_answer_waits_while_the_coordinator_is_not_known_to_live_yet(
    service, metadata, clock
):
    book = Phonebook(["b"])
    other = coordinator(metadata, book, "b", clock)
    patient = coordinator(metadata, book, "b", clock, GroupLimits(find_wait_ms=2000))
    assert await other.coordinator(GROUP) is None
    asking = asyncio.create_task(patient.coordinator(GROUP))
    await clock.advance(1)
    assert not asking.done()
    book.live["a"] = Node(7, "a", 9092)
    await clock.advance(0.1)
    assert await asking == book.live["a"]


async def test_a_session_ends_by_itself(service, clock):
    await stable(service)
    await clock.advance(9.9)
    assert service.describe(GROUP).state == "Stable"
    await clock.advance(0.2)
    assert service.describe(GROUP).state == "Empty"


async def test_heartbeats_keep_a_session(service, clock):
    caller = await stable(service)
    for _ in range(10):
        await clock.advance(6)
        assert service.heartbeat(GROUP, caller) is NONE


async def test_an_idle_coordinator_writes_nothing_but_its_leases(service, clock, database):
    await stable(service)
    await clock.advance(1)
    before = database.writes
    caller = Caller(service.describe(GROUP).members[0].member_id, None, 1)
    for _ in range(6):
        await clock.advance(1.5)
        service.heartbeat(GROUP, caller)
    assert database.writes - before <= 6


async def test_a_broker_without_groups_writes_nothing(metadata, clock, database):
    idle = coordinator(metadata, Phonebook(["a"]), "a", clock, LIMITS)
    before = database.writes
    running = asyncio.create_task(idle.run())
    await clock.advance(60)
    running.cancel()
    await asyncio.wait([running])
    assert database.writes == before


async def test_a_group_that_nobody_joined_in_the_end_is_forgotten(service, clock):
    await service.join(GROUP, join_request(must_know_id=True))
    assert service.describe(GROUP).state == "Empty"
    await clock.advance(10)
    assert service.describe(GROUP).error is ErrorCode.group_id_not_found


async def test_a_client_that_goes_away_leaves_no_ticket_behind(service, clock):
    await stable(service)
    waiting = asyncio.create_task(service.join(GROUP, join_request()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert len(service._roster.parked) == 0
    await clock.advance(1000)
    assert service.describe(GROUP).state == "Empty"


@pytest.mark.parametrize("failure", [Unavailable("gone"), OutcomeUnknown("lost")])
async def test_while_the_store_does_not_answer_clients_are_told_to_try_again(
    service, clock, database, partition, failure
):
    caller = await stable(service)
    database.failure = failure
    again = ErrorCode.coordinator_not_available
    assert await service.offsets.commit(GROUP, caller, [Committed(partition, 1)]) is again
    database.failure = None
    outcomes = await service.offsets.commit(GROUP, caller, [Committed(partition, 1)])
    assert outcomes == {partition: NONE}


async def test_a_coordinator_that_cannot_renew_for_its_session_gives_its_groups_up(
    service, clock, database
):
    caller = await stable(service)
    database.failure = Unavailable("gone")
    await clock.advance(4.5)
    assert service.heartbeat(GROUP, caller) is NONE
    await clock.advance(3)
    assert service.heartbeat(GROUP, caller) is ErrorCode.not_coordinator


async def test_a_slot_that_was_given_up_is_taken_again_under_a_new_epoch(
    service, clock, database, metadata, partition
):
    await stable(service)
    before = service._roster.slot(GROUP).lease
    database.failure = Unavailable("gone")
    await clock.advance(9)
    database.failure = None
    await clock.advance(4.5)
    assert (await service.coordinator(GROUP)).node_id == 1
    after = service._roster.slot(GROUP).lease
    assert after.epoch > before.epoch
    assert (await service.offsets.fetch(GROUP, [partition])) == {}


def steal(name: str) -> Transaction[None]:
    yield Execute("UPDATE leases SET epoch = epoch + 1, holder = 'b' WHERE name = $1", (name,))


async def test_a_lost_lease_ends_what_waits_and_sends_members_on(
    service, clock, database, partition
):
    caller = await stable(service)
    waiting = asyncio.create_task(service.join(GROUP, join_request()))
    await asyncio.sleep(0)
    await database.run(steal(lease_name(slot_of(GROUP))))
    refused = await service.offsets.commit(GROUP, caller, [Committed(partition, 1)])
    assert refused is ErrorCode.not_coordinator
    assert (await waiting).error is ErrorCode.not_coordinator
    assert service.list() == []


async def test_a_lost_lease_is_noticed_without_a_commit(service, clock, database):
    caller = await stable(service)
    await database.run(steal(lease_name(slot_of(GROUP))))
    await clock.advance(1.5)
    assert service.heartbeat(GROUP, caller) is ErrorCode.not_coordinator


async def test_commits_are_stored_in_the_order_they_were_accepted(
    service, metadata, partition, monkeypatch
):
    caller = await stable(service)
    batches: list[list[int]] = []
    inner = metadata.group_offsets.commit

    async def slow(lease, slot, commits):
        batches.append([commit.committed.offset for commit in commits])
        await asyncio.sleep(0)
        return await inner(lease, slot, commits)

    monkeypatch.setattr(metadata.group_offsets, "commit", slow)
    offsets = [[Committed(partition, n)] for n in range(10)]
    await asyncio.gather(*(service.offsets.commit(GROUP, caller, each) for each in offsets))
    assert [offset for batch in batches for offset in batch] == list(range(10))
    assert len(batches) == 1, "those that wait share a transaction"
    assert (await service.offsets.fetch(GROUP, [partition]))[partition].offset == 9


class TestExpiry:
    async def test_offsets_of_a_group_with_members_never_expire(self, service, clock, partition):
        caller = await stable(service)
        await service.offsets.commit(GROUP, caller, [Committed(partition, 1)])
        await clock.advance(5)
        assert await service.offsets.expire() == 0
        assert await service.offsets.fetch(GROUP, [partition])

    async def test_the_time_runs_from_the_moment_the_group_is_empty(
        self, service, clock, partition
    ):
        caller = await stable(service)
        await service.offsets.commit(GROUP, caller, [Committed(partition, 1)])
        await clock.advance(5)
        service.leave(GROUP, [caller])
        await clock.advance(0.9)
        assert await service.offsets.expire() == 0
        await clock.advance(0.1)
        assert await service.offsets.expire() == 1
        assert service.describe(GROUP).error is ErrorCode.group_id_not_found
        assert await service.offsets.fetch(GROUP, [partition]) == {}

    async def test_a_group_without_members_expires_from_its_last_commit(
        self, service, clock, partition
    ):
        other = TopicPartition(partition.topic_id, 1)
        await service.offsets.commit(GROUP, Caller(), [Committed(partition, 1)])
        await clock.advance(0.6)
        await service.offsets.commit(GROUP, Caller(), [Committed(other, 1)])
        await clock.advance(0.6)
        assert await service.offsets.expire() == 0
        assert list(await service.offsets.fetch(GROUP, [partition, other])) == [other]

    async def test_a_client_may_ask_for_its_own_retention(self, service, clock, partition):
        offsets = [Committed(partition, 1)]
        await service.offsets.commit(GROUP, Caller(), offsets, retention_ms=100_000)
        await clock.advance(50)
        assert await service.offsets.expire() == 0
        await clock.advance(50)
        assert await service.offsets.expire() == 1

    async def test_a_member_that_joins_while_its_group_expires_is_kept(
        self, service, clock, metadata, partition, monkeypatch
    ):
        await service.offsets.commit(GROUP, Caller(), [Committed(partition, 1)])
        await clock.advance(2)
        inner = metadata.group_offsets.expire

        async def joined_meanwhile(*args):
            gone = await inner(*args)
            await stable(service)
            return gone

        monkeypatch.setattr(metadata.group_offsets, "expire", joined_meanwhile)
        await service.offsets.expire()
        assert service.describe(GROUP).state == "Stable"
        await clock.advance(0.1)
        assert [row.group_id for row in await metadata.group_offsets.load(slot_of(GROUP))] == [
            GROUP
        ]


async def test_nobody_joins_a_group_that_is_being_deleted(service, metadata, monkeypatch):
    caller = await stable(service)
    service.leave(GROUP, [caller])
    inner = metadata.group_offsets.delete
    refused = []

    async def asked_meanwhile(*args):
        refused.append((await service.join(GROUP, join_request())).error)
        await inner(*args)

    monkeypatch.setattr(metadata.group_offsets, "delete", asked_meanwhile)
    assert await service.delete(GROUP) is NONE
    assert refused == [ErrorCode.coordinator_not_available]
    assert (await service.join(GROUP, join_request())).generation == 1


async def test_a_deletion_that_fails_leaves_the_group_as_it_was(service, database):
    caller = await stable(service)
    service.leave(GROUP, [caller])
    database.failure = Unavailable("gone")
    assert await service.delete(GROUP) is ErrorCode.coordinator_not_available
    database.failure = None
    assert service.describe(GROUP).state == "Empty"
