"""Who lives, and who leads which partition."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.errors import Fenced, Misconfigured
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.ingress.cluster import ClusterView, Liveness, Members
from lakestream_spark.ingress.machine import refuse_other_machines
from lakestream_spark.metadata.brokers import Incarnation, Node
from tests.support.clock import SimulatedClock
from tests.support.registry import MemoryRegistry, registration

LIVENESS = Liveness(beat_s=1.0, session_s=6.0)
PARTITIONS = [TopicPartition(TopicId(UUID(int=n // 10)), n % 10) for n in range(1_000)]


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def join(registry: MemoryRegistry, clock: SimulatedClock, node_id: int) -> ClusterView:
    me = registration(node_id)
    registry.join(me)
    return ClusterView(me, registry, clock, LIVENESS)


def ids(view: ClusterView) -> list[int]:
    return [node.node_id for node in view.brokers()]


async def test_a_fresh_broker_gives_everybody_the_benefit_of_one_session(registry, clock):
    registry.join(registration(2))
    await clock.advance(1000)
    view = join(registry, clock, 1)
    await view.tick()
    assert ids(view) == [1, 2]


async def test_a_dead_broker_is_out_within_a_session_of_its_last_beat(registry, clock):
    first, second = join(registry, clock, 1), join(registry, clock, 2)
    for _ in range(20):
        await clock.advance(1.0)
        await second.tick()
        await first.tick()
    assert ids(first) == [1, 2]
    for _ in range(6):
        await clock.advance(1.0)
        await first.tick()
    assert ids(first) == [1]


async def test_a_slow_broker_that_beats_is_kept(registry, clock):
    first, second = join(registry, clock, 1), join(registry, clock, 2)
    for second_passed in range(60):
        await clock.advance(1.0)
        await first.tick()
        if second_passed % 3 == 0:
            await second.tick()
        assert ids(first) == [1, 2]


async def test_who_was_dead_and_beats_again_is_back(registry, clock):
    first, second = join(registry, clock, 1), join(registry, clock, 2)
    for _ in range(10):
        await first.tick()
        await clock.advance(1.0)
    assert ids(first) == [1]
    await second.tick()
    await first.tick()
    assert ids(first) == [1, 2]


async def test_a_row_that_stands_still_for_three_sessions_is_removed(registry, clock):
    first, second = join(registry, clock, 1), join(registry, clock, 2)
    for _ in range(18):
        await first.tick()
        await clock.advance(1.0)
    assert registry.removed == []
    await first.tick()
    assert registry.removed == [2]
    with pytest.raises(Fenced):
        await second.tick()


async def test_a_replaced_broker_is_fenced_at_its_next_beat(registry, clock):
    view = join(registry, clock, 1)
    await view.tick()
    registry.join(registration(1, life="newcomer"))
    with pytest.raises(Fenced):
        await view.tick()


async def test_who_leaves_names_only_the_others_and_beats_no_more(registry, clock):
    first, second = join(registry, clock, 1), join(registry, clock, 2)
    await first.tick()
    await first.leave()
    assert ids(first) == [2]
    await first.tick()
    await second.tick()
    assert ids(second) == [2]


async def test_the_last_broker_still_names_itself_while_it_leaves(registry, clock):
    view = join(registry, clock, 1)
    await view.leave()
    assert ids(view) == [1]
    assert registry.rows == {}


async def test_a_holder_has_an_address_while_its_broker_lives(registry, clock):
    first, second = join(registry, clock, 1), join(registry, clock, 2)
    await first.tick()
    assert first.address_of(second.holder) == second.me
    assert first.address_of(first.holder) == first.me
    registry.join(registration(2, life="newcomer"))
    await first.tick()
    assert first.address_of(second.holder) is None


def nodes(*node_ids: int, racks: tuple[str | None, ...] = (None,)) -> list[Node]:
    return [Node(n, "host", n, racks[index % len(racks)]) for index, n in enumerate(node_ids)]


def leaders(members: Members, rack: str | None = None) -> dict[TopicPartition, int]:
    return {partition: members.leader(partition, rack).node_id for partition in PARTITIONS}


node_sets = st.sets(st.integers(0, 10_000), min_size=1, max_size=12)


@given(node_sets, st.integers(0, 10_000))
def test_a_broker_that_comes_or_goes_moves_only_its_own_partitions(node_ids, one):
    others = node_ids - {one} or {one + 1}
    without = leaders(Members(nodes(*others)))
    with_one = leaders(Members(nodes(*others, one)))
    for partition in PARTITIONS:
        assert with_one[partition] in (without[partition], one)


@given(st.sets(st.integers(0, 10_000), min_size=2, max_size=8))
def test_partitions_are_spread_over_all_brokers(node_ids):
    share = len(PARTITIONS) / len(node_ids)
    spread = Counter(leaders(Members(nodes(*node_ids))).values())
    assert set(spread) == node_ids
    assert all(share / 3 < count < share * 3 for count in spread.values())


@given(st.permutations([3, 1, 2]))
def test_every_broker_names_the_same_leaders(order):
    assert leaders(Members(nodes(*order))) == leaders(Members(nodes(1, 2, 3)))


def test_leaders_are_of_the_clients_rack_when_it_has_brokers():
    members = Members(nodes(1, 2, 3, 4, racks=("a", "b")))
    assert set(leaders(members, "a").values()) == {1, 3}
    assert set(leaders(members, "b").values()) == {2, 4}
    assert leaders(members, "elsewhere") == leaders(members)


def test_leaders_are_the_same_in_every_version():
    members = Members(nodes(1, 2, 3))
    found = [members.leader(partition).node_id for partition in PARTITIONS[:8]]
    assert found == [3, 1, 1, 2, 1, 3, 1, 3]


async def test_a_folder_is_refused_while_a_broker_of_another_machine_beats(registry, clock):
    other = registration(2)._replace(incarnation=Incarnation("elsewhere", "x"))
    registry.join(other)
    checking = refuse_other_machines(registration(1), registry, clock, LIVENESS)
    with pytest.raises(Misconfigured, match="only brokers of one host"):
        await _while(clock, checking, lambda: registry.beat(other))


async def test_a_dead_row_of_another_machine_does_not_keep_a_broker_from_starting(registry, clock):
    registry.join(registration(2)._replace(incarnation=Incarnation("elsewhere", "x")))
    await _while(clock, refuse_other_machines(registration(1), registry, clock, LIVENESS))


async def test_brokers_of_one_machine_share_a_folder_at_once(registry, clock):
    registry.join(registration(2))
    await refuse_other_machines(registration(1), registry, clock, LIVENESS)


async def _while(
    clock: SimulatedClock,
    checking: Coroutine[Any, Any, None],
    then: Callable[[], Awaitable[None]] | None = None,
) -> None:
    task = asyncio.create_task(checking)
    await clock.advance(0.1)
    if then is not None:
        await then()
    await clock.advance(10)
    await task
