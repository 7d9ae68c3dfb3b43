"""Committed offsets and groups in the store, and the coordinators that share it."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.groups import GroupService
from lakestream_spark.groups.messages import Caller, Sync
from lakestream_spark.groups.slots import lease_name, slot_of
from lakestream_spark.metadata import group_offsets
from lakestream_spark.metadata.group_offsets import Commit, Committed, Expiry, StoredGroup
from lakestream_spark.metadata.leases import Leases
from tests.contract.metadata.test_leases import _until, pause
from tests.support.coordinators import LIMITS, Phonebook, coordinator, join_request

__all__ = ["pause"]

SLOT = 3
SESSION_S = 6.0


@pytest.fixture
def store(request):
    return request.param


pytestmark = pytest.mark.parametrize(
    "store",
    ["sqlite-file", "sqlite-memory", pytest.param("postgres", marks=pytest.mark.postgres)],
    indirect=True,
)


@pytest.fixture
async def lease(metadata):
    return await metadata.leases.try_acquire(lease_name(SLOT), "a", SESSION_S)


@pytest.fixture
def offsets(metadata):
    return metadata.group_offsets


def place(partition: TopicPartition, number: int) -> TopicPartition:
    return TopicPartition(partition.topic_id, number)


class TestStore:
    async def test_a_group_reads_what_it_committed_last(self, offsets, lease, partition):
        first = Committed(partition, 5, 0, "note")
        last = Committed(partition, 7, 2, "ä\0 note")
        other = Committed(place(partition, 1), 1)
        await offsets.commit(lease, SLOT, [Commit("g", first, 10), Commit("g", other, 10)])
        await offsets.commit(lease, SLOT, [Commit("g", last, 11)])
        await offsets.commit(lease, SLOT, [Commit("h", first, 12)])
        wanted = [place(partition, n) for n in (0, 1, 2, 0)]
        assert await offsets.fetch("g", wanted) == {partition: last, other.partition: other}
        assert await offsets.fetch("g", []) == {}
        assert await offsets.fetch("nobody", wanted) == {}
        assert await offsets.fetch_all("g") == [("orders", last), ("orders", other)]

    async def test_of_two_commits_in_one_transaction_the_later_counts(
        self, offsets, lease, partition
    ):
        commits = [Commit("g", Committed(partition, n), 10) for n in (9, 8)]
        assert await offsets.commit(lease, SLOT, commits) == set()
        assert (await offsets.fetch("g", [partition]))[partition].offset == 8

    async def test_partitions_that_do_not_exist_come_back_and_the_others_are_stored(
        self, offsets, lease, partition
    ):
        missing = place(partition, 3)
        strange = TopicPartition(TopicId(type(partition.topic_id)(int=1)), 0)
        commits = [Commit("g", Committed(p, 1), 10) for p in (missing, partition, strange)]
        assert await offsets.commit(lease, SLOT, commits) == {missing, strange}
        assert len(await offsets.fetch_all("g")) == 1

    async def test_a_topic_that_is_made_again_has_no_offsets(
        self, metadata, offsets, lease, partition
    ):
        await offsets.commit(lease, SLOT, [Commit("g", Committed(partition, 5), 10)])
        await metadata.topics.delete(partition.topic_id)
        again = await metadata.topics.create("orders", partitions=3)
        assert await offsets.fetch("g", [TopicPartition(again.id, 0)]) == {}
        assert await offsets.fetch_all("g") == []

    async def test_a_group_that_commits_is_known_to_its_slot(self, offsets, lease, partition):
        await offsets.commit(lease, SLOT, [Commit("g", Committed(partition, 5), 10)])
        assert await offsets.load(SLOT) == [StoredGroup("g", None, 0, 10)]
        assert await offsets.load(SLOT + 1) == []

    async def test_a_commit_leaves_the_row_of_its_group_alone(self, offsets, lease, partition):
        row = StoredGroup("g", "consumer", 4, None)
        await offsets.save(lease, SLOT, [row])
        await offsets.commit(lease, SLOT, [Commit("g", Committed(partition, 5), 10)])
        assert await offsets.load(SLOT) == [row]

    async def test_offsets_and_groups_are_deleted_alone(self, offsets, lease, partition):
        places = [place(partition, n) for n in range(3)]
        for group in ("g", "h"):
            commits = [Commit(group, Committed(p, 1), 10) for p in places]
            await offsets.commit(lease, SLOT, commits)
        await offsets.forget(lease, "g", places[:2])
        assert list(await offsets.fetch("g", places)) == places[2:]
        await offsets.delete(lease, "g")
        assert await offsets.fetch_all("g") == []
        assert [row.group_id for row in await offsets.load(SLOT)] == ["h"]
        assert len(await offsets.fetch_all("h")) == 3

    async def test_only_what_is_old_expires_and_only_of_empty_groups(
        self, offsets, lease, partition
    ):
        old, new, own, busy = (Committed(place(partition, n), n) for n in (0, 1, 2, 0))
        await offsets.commit(lease, SLOT, [Commit("g", old, 10), Commit("g", new, 90)])
        await offsets.commit(lease, SLOT, [Commit("g", own, 90, 95), Commit("busy", busy, 10)])
        await offsets.commit(lease, SLOT, [Commit("done", old, 10)])
        empty = ["g", "done"]
        expiry = Expiry(long_empty=empty, empty=empty, before_ms=50, now_ms=100)
        assert await offsets.expire(lease, SLOT, expiry) == ["done"]
        assert [each for _, each in await offsets.fetch_all("g")] == [new]
        assert [each for _, each in await offsets.fetch_all("busy")] == [busy]

    async def test_offsets_of_deleted_topics_are_swept(self, metadata, offsets, lease, partition):
        await offsets.commit(lease, SLOT, [Commit("g", Committed(partition, 1), 10)])
        await metadata.topics.delete(partition.topic_id)
        expiry = Expiry(long_empty=[], empty=["g"], before_ms=0, now_ms=0)
        assert await offsets.expire(lease, SLOT, expiry) == ["g"]

    async def test_many_offsets_are_committed_at_once(self, metadata, offsets, lease):
        topic = await metadata.topics.create("wide", partitions=2000)
        places = [TopicPartition(topic.id, n) for n in range(2000)]
        await offsets.commit(lease, SLOT, [Commit("g", Committed(p, 1), 10) for p in places])
        assert len(await offsets.fetch("g", places)) == 2000


class TestFencing:
    @pytest.fixture
    async def next_lease(self, metadata, clock, lease):
        """Takes the lease from `lease` when called."""
        challenger = Leases(metadata.database, clock)
        await challenger.try_acquire(lease.name, "b", SESSION_S)
        await clock.advance(SESSION_S)
        return lambda: challenger.try_acquire(lease.name, "b", SESSION_S)

    async def test_a_zombie_that_comes_after_the_next_coordinator_changes_nothing(
        self, offsets, lease, partition, next_lease
    ):
        taken = await next_lease()
        newer = Committed(partition, 9)
        await offsets.commit(taken, SLOT, [Commit("g", newer, 10)])
        empty = Expiry(long_empty=["g"], empty=["g"], before_ms=99, now_ms=99)
        for write in (
            offsets.commit(lease, SLOT, [Commit("g", Committed(partition, 5), 10)]),
            offsets.save(lease, SLOT, [StoredGroup("x")]),
            offsets.forget(lease, "g", [partition]),
            offsets.delete(lease, "g"),
            offsets.expire(lease, SLOT, empty),
        ):
            with pytest.raises(Fenced):
                await write
        assert await offsets.fetch("g", [partition]) == {partition: newer}

    async def test_the_next_coordinator_waits_for_a_commit_that_passed_the_check(
        self, metadata, offsets, lease, partition, next_lease, pause
    ):
        commit = group_offsets._commit(lease, SLOT, [Commit("g", Committed(partition, 5), 10)])
        held = pause.after_guard(commit)
        zombie = asyncio.create_task(metadata.database.run(held))
        await _until(pause.reached.is_set)
        taking = asyncio.create_task(next_lease())
        done, _ = await asyncio.wait([taking], timeout=0.3)
        assert not done, "the lease changed hands while a commit under it was open"
        await pause.end()
        await zombie
        assert await taking is not None
        assert (await offsets.fetch("g", [partition]))[partition].offset == 5


GROUP = "group"


async def stable(service: GroupService) -> Caller:
    """A group of one member."""
    joined = await service.join(GROUP, join_request())
    assert joined.error is ErrorCode.none
    caller = Caller(joined.member_id, None, joined.generation)
    synced = await service.sync(GROUP, Sync(caller=caller, assignments={joined.member_id: b"all"}))
    assert synced.assignment == b"all"
    return caller


class TestCoordinators:
    @pytest.fixture
    def book(self):
        return Phonebook(["a", "b"])

    @pytest.fixture
    def a(self, metadata, book, clock):
        return coordinator(metadata, book, "a", clock)

    @pytest.fixture
    def b(self, metadata, book, clock):
        return coordinator(metadata, book, "b", clock)

    async def test_of_two_that_race_for_a_slot_one_gets_it_and_both_say_so(self, a, b, book):
        found = await asyncio.gather(*(each.coordinator(GROUP) for each in (a, b) * 5))
        assert len({node for node in found if node is not None}) == 1
        settled = await asyncio.gather(a.coordinator(GROUP), b.coordinator(GROUP))
        assert settled[0] is not None
        assert settled[0] == settled[1]

    async def test_the_answer_stays_the_same_while_the_holder_lives(self, a, b, clock):
        first = await a.coordinator(GROUP)
        for _ in range(8):
            await clock.advance(LIMITS.lease_renew_ms / 1000)
            await a.keep()
            await b.keep()
            assert await b.coordinator(GROUP) == first

    async def test_groups_of_others_are_refused(self, a, b, partition):
        await a.coordinator(GROUP)
        elsewhere = ErrorCode.not_coordinator
        assert (await b.join(GROUP, join_request())).error is elsewhere
        caller = Caller("m", None, 1)
        assert (await b.sync(GROUP, Sync(caller=caller, assignments={}))).error is elsewhere
        assert b.heartbeat(GROUP, caller) is elsewhere
        assert b.leave(GROUP, [caller]) is elsewhere
        assert b.describe(GROUP).error is elsewhere
        assert await b.delete(GROUP) is elsewhere
        offsets = [Committed(partition, 1)]
        assert await b.offsets.commit(GROUP, Caller(), offsets) is elsewhere
        assert await b.offsets.fetch(GROUP, [partition]) is elsewhere
        assert await b.offsets.fetch_all(GROUP) is elsewhere
        assert await b.offsets.delete(GROUP, []) is elsewhere

    async def test_when_a_coordinator_dies_another_goes_on_from_the_offsets(
        self, a, b, book, clock, partition
    ):
        await a.coordinator(GROUP)
        caller = await stable(a)
        committed = Committed(partition, 42)
        assert await a.offsets.commit(GROUP, caller, [committed]) == {partition: ErrorCode.none}
        await b.keep()
        await clock.advance(SESSION_S)
        await b.keep()
        assert await b.coordinator(GROUP) == book.live["b"]
        assert b.heartbeat(GROUP, caller) is ErrorCode.unknown_member_id
        again = await stable(b)
        assert await b.offsets.fetch(GROUP, [partition]) == {partition: committed}
        assert await b.offsets.commit(GROUP, again, [Committed(partition, 43)])
        late = await a.offsets.commit(GROUP, caller, [Committed(partition, 7)])
        assert late is ErrorCode.not_coordinator
        assert a.heartbeat(GROUP, caller) is ErrorCode.not_coordinator
        assert (await b.offsets.fetch(GROUP, [partition]))[partition].offset == 43

    async def test_one_that_left_the_directory_is_replaced_after_two_beats(self, a, b, book, clock):
        await a.coordinator(GROUP)
        del book.live["a"]
        assert await b.coordinator(GROUP) is None
        await clock.advance(2 * LIMITS.lease_renew_ms / 1000)
        assert await b.coordinator(GROUP) == book.live["b"]

    async def test_a_coordinator_that_stops_hands_over_at_once(self, a, b, book):
        running = asyncio.create_task(a.run())
        await a.coordinator(GROUP)
        caller = await stable(a)
        waiting = asyncio.create_task(a.join(GROUP, join_request()))
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.wait([running])
        assert (await waiting).error is ErrorCode.not_coordinator
        assert await a.coordinator(GROUP) in (None, book.live["b"])
        assert await b.coordinator(GROUP) == book.live["b"]
        assert b.heartbeat(GROUP, caller) is ErrorCode.unknown_member_id

    async def test_generations_go_on_after_a_takeover(self, a, b, clock):
        running = asyncio.create_task(a.run())
        await a.coordinator(GROUP)
        first = await stable(a)
        running.cancel()
        await asyncio.wait([running])
        await b.coordinator(GROUP)
        assert b.describe(GROUP).protocol_type == "consumer"
        assert (await stable(b)).generation > first.generation

    async def test_a_coordinator_that_was_away_goes_on_if_nobody_took_its_groups(
        self, a, clock, metadata
    ):
        await a.coordinator(GROUP)
        caller = await stable(a)
        await clock.advance(SESSION_S)
        await a.keep()
        assert a.heartbeat(GROUP, caller) is ErrorCode.none
        lease = lease_name(slot_of(GROUP))
        assert (await metadata.leases.look([lease]))[lease] == "a"

    async def test_groups_that_were_stored_are_listed_and_deleted_by_the_next(
        self, a, b, clock, partition, metadata
    ):
        await a.coordinator(GROUP)
        await a.offsets.commit(GROUP, Caller(), [Committed(partition, 5)])
        await b.keep()
        await clock.advance(SESSION_S)
        await b.keep()
        assert [(each.group_id, each.state) for each in b.list()] == [(GROUP, "Empty")]
        assert await b.delete(GROUP) is ErrorCode.none
        assert b.list() == []
        assert await b.delete(GROUP) is ErrorCode.group_id_not_found
        assert await metadata.group_offsets.fetch_all(GROUP) == []
