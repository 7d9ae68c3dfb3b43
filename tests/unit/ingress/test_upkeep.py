"""Background loops and the work that brokers share."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import pytest

from lakestream_spark.core.errors import Fenced, Unavailable
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.ingress.cluster import ClusterView, Liveness
from lakestream_spark.ingress.housekeeping import (
    AbandonedWriters,
    Housekeeping,
    HousekeepingPolicy,
    OneAtATime,
)
from lakestream_spark.ingress.stopping import GracefulStop
from lakestream_spark.ingress.upkeep import Loop, Upkeep
from lakestream_spark.metadata.leases import Leases
from lakestream_spark.metadata.store import services
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.wal.reclaim import ReclaimPolicy
from tests.support.clock import SimulatedClock
from tests.support.metadata import die_while_deleting, header, stored
from tests.support.registry import registration
from tests.support.sqlite import InlineSqlite

LIVENESS = Liveness(beat_s=1.0, session_s=6.0)


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
async def metadata(clock):
    # Without a thread: time passes only when everything that happens now has happened.
    opened = await services(InlineSqlite(), clock)
    yield opened
    await opened.close()


def loop(work, *, name: str = "work", every_s: float = 10.0, vital: bool = False) -> Loop:
    return Loop(name=name, every_s=every_s, work=work, stale_after_s=30.0, vital=vital)


@asynccontextmanager
async def running(upkeep: Upkeep):
    task = asyncio.create_task(upkeep.run())
    await asyncio.sleep(0)
    yield task
    task.cancel()
    await asyncio.wait([task])


async def test_a_loop_runs_at_once_and_then_at_its_period(clock):
    times = []

    async def work():
        times.append(clock.monotonic())
        return False

    async with running(Upkeep([loop(work)], clock, Random(1))):
        await clock.advance(35)
    assert times == [0, 10, 20, 30]


async def test_a_loop_with_more_to_do_goes_on_at_once(clock):
    left = 5

    async def work():
        nonlocal left
        left -= 1
        return left > 0

    async with running(Upkeep([loop(work)], clock, Random(1))):
        await clock.advance(0.1)
    assert left == 0


async def test_a_loop_that_fails_goes_on_and_its_age_tells(clock, caplog):
    failing = True

    async def work():
        if failing:
            raise Unavailable("the store is away")
        return False

    upkeep = Upkeep([loop(work)], clock, Random(1))
    async with running(upkeep) as task:
        await clock.advance(100)
        assert not task.done()
        assert upkeep.age_s("work") == 100
        assert upkeep.stale() == ["the background loop work has not succeeded for 100 s"]
        failing = False
        await clock.advance(60)
        assert upkeep.stale() == []
    assert 3 < len(caplog.records) < 40


async def test_an_unexpected_error_does_not_end_a_loop(clock):
    runs = []

    async def work():
        runs.append(1)
        raise ZeroDivisionError

    async with running(Upkeep([loop(work)], clock, Random(1))) as task:
        await clock.advance(100)
        assert not task.done()
    assert len(runs) > 3


@pytest.mark.parametrize("vital", [True, False])
async def test_only_a_vital_loop_that_is_fenced_ends_the_upkeep(clock, vital):
    async def work():
        raise Fenced("replaced", replaced_by="another")

    async def other():
        return False

    loops = [loop(work, vital=vital), loop(other, name="other")]
    async with running(Upkeep(loops, clock, Random(1))) as task:
        await clock.advance(20)
        assert task.done() == vital
        if vital:
            with pytest.raises(Fenced):
                await task


async def test_work_under_a_lease_is_done_by_one_broker_until_it_is_gone(metadata, clock):
    done = []

    def job(name: str, leases: Leases) -> OneAtATime:
        async def work():
            done.append(name)
            return False

        return OneAtATime("job", work, holder=name, leases=leases, session_s=30.0)

    first, second = (job(n, Leases(metadata.database, clock)) for n in ("first", "second"))
    for _ in range(5):
        await first.run()
        await second.run()
        await clock.advance(20)
    assert done == ["first"] * 5
    for _ in range(3):
        await second.run()
        await clock.advance(20)
    assert done[5:] == ["second", "second"]
    await second.release()
    await first.run()
    assert done[-1] == "first"


async def test_housekeeping_collects_the_orphans_of_a_dead_broker(metadata, clock):
    store = MemoryStore("memory://x")
    me = registration(1)
    await metadata.brokers.join(me)
    cluster = ClusterView(me, metadata.brokers, clock, LIVENESS)
    dead = registration(2)
    await metadata.brokers.join(dead)
    writer = await metadata.writers.register(BrokerId(2), "cost")
    orphan = segment_key((writer.broker_id, writer.broker_epoch, 1))  # type: ignore[arg-type]
    await store.put(orphan, b"never committed")
    policy = HousekeepingPolicy(reclaim=ReclaimPolicy(), reclaim_every_s=5.0)
    house = Housekeeping(metadata, {"cost": store}, cluster, clock, policy)
    beat = loop(cluster.tick, name="heartbeat", every_s=1.0)
    async with running(Upkeep([beat, *house.loops(LIVENESS)], clock, Random(1))):
        await clock.advance(10)
        assert [info.key async for info in store.list("")] == [orphan]
        await clock.advance(20)
    assert [info.key async for info in store.list("")] == []
    await house.release()


async def test_housekeeping_finishes_a_deletion_whose_broker_died(metadata, clock):
    me = registration(1)
    await metadata.brokers.join(me)
    cluster = ClusterView(me, metadata.brokers, clock, LIVENESS)
    topic = await metadata.topics.create("orders")
    writer = await metadata.writers.register(BrokerId(2), "cost")
    segment = stored(writer, 1, (TopicPartition(topic.id, 0), [header()]))
    await metadata.sequencer.commit(segment)
    await die_while_deleting(metadata, topic.id)
    assert await metadata.backlog.wal_bytes() == 100
    policy = HousekeepingPolicy(reclaim=ReclaimPolicy())
    house = Housekeeping(metadata, {}, cluster, clock, policy)
    async with running(Upkeep(house.loops(LIVENESS), clock, Random(1))):
        await clock.advance(1)
    assert await metadata.backlog.wal_bytes() == 0
    await house.release()


async def test_a_writer_without_a_broker_is_fenced_when_it_stands_still(metadata, clock):
    left_alone = await metadata.writers.register(BrokerId(1), "cost")
    busy = await metadata.writers.register(BrokerId(2), "cost")
    await metadata.brokers.join(registration(3))
    registered = await metadata.writers.register(BrokerId(3), "cost")
    job = AbandonedWriters(metadata.brokers, metadata.writers, clock, LIVENESS)
    for _ in range(5):
        await job.run()
        await metadata.writers.beat(busy)
        await clock.advance(6)
    alive = {each.identity for each in await metadata.writers.observe()}
    assert alive == {busy, registered}
    assert left_alone not in alive


async def test_a_step_of_a_stop_that_hangs_or_fails_does_not_keep_the_next_from_running(caplog):
    clock = SimulatedClock()
    stop = GracefulStop(clock, timeout_s=0.0)
    done = []

    async def hang():
        await asyncio.sleep(60)

    async def fail():
        raise Unavailable("gone")

    async def work():
        done.append("work")

    for name, step in (("hang", hang), ("fail", fail), ("work", work)):
        await stop.step(name, step)
    assert done == ["work"]
    assert [record.facts["step"] for record in caplog.records] == ["hang", "fail"]
