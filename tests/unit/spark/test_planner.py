"""What a look at the backlog plans, and whom it asks."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.leases import Leases
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.holdings import Holdings
from lakestream_spark.spark.planner import Planner
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.table.commit import lease_name
from tests.support.clock import SimulatedClock
from tests.support.tables import acknowledge

NOBODY = cast("Any", None)  # No table is opened.


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(wall_ms=0)


@pytest.fixture
async def metadata(clock: SimulatedClock) -> AsyncIterator[Metadata]:
    opened = await open_metadata("sqlite://", clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def topic(metadata: Metadata) -> Topic:
    made = await metadata.topics.create("orders", config={"lakestream.table.lag.ms": "900000"})
    await acknowledge(metadata, made, [b"a", b"b"])
    return made


def planner_of(metadata: Metadata, clock: SimulatedClock, *, drain: bool) -> Planner:
    scope, policy = Scope(job="mine", drain=drain), CompactPolicy()
    holdings = Holdings(metadata.leases, scope.job, policy.session_s)
    troubles = Troubles(metadata.problems, clock)
    return Planner(metadata, NOBODY, holdings, troubles, scope, policy)


async def is_asked(metadata: Metadata, topic: Topic) -> bool:
    return (await metadata.backlog.pending())[topic.id].flush_wanted


@pytest.mark.parametrize("jobs", [("other",), ("mine",)])
async def test_a_drain_asks_once_for_what_another_job_owns_or_holds(
    metadata: Metadata, clock: SimulatedClock, topic: Topic, jobs: tuple[str, ...]
) -> None:
    others = Leases(metadata.database, clock)
    lease = await others.try_acquire(lease_name(topic.id), "other", 10.0)
    assert lease is not None
    planner = planner_of(metadata, clock, drain=True)
    planner.jobs = jobs
    assert await planner.plan(0) is None
    assert planner.waiting == {"orders"}
    assert await is_asked(metadata, topic)
    (reached,) = planner.reached.values()
    assert reached == 0

    await metadata.tables.finish(lease, topic.id, "c", {0: 1})
    assert await planner.plan(0) is None
    (reached,) = planner.reached.values()
    assert reached == 1
    await metadata.tables.finish(lease, topic.id, "c", {0: 2})
    assert await planner.plan(0) is None
    assert planner.waiting == frozenset()


async def test_a_job_that_stays_asks_for_nothing(
    metadata: Metadata, clock: SimulatedClock, topic: Topic
) -> None:
    planner = planner_of(metadata, clock, drain=False)
    planner.jobs = ("other",)
    assert await planner.plan(1_000_000) is None
    assert planner.waiting == {"orders"}
    assert not await is_asked(metadata, topic)
