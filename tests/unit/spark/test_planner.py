"""What a look at the backlog plans, and whom it asks."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Leases
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import MIB, CompactPolicy
from lakestream_spark.spark.holdings import Holdings
from lakestream_spark.spark.planner import Planner
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.table.commit import lease_name
from tests.support.clock import SimulatedClock
from tests.support.tables import acknowledge

NOBODY = cast("Any", None)  # No table is opened.


@pytest.fixture
async def topic(metadata: Metadata) -> Topic:
    made = await metadata.topics.create("orders", config={"lakestream.table.lag.ms": "900000"})
    await acknowledge(metadata, made, [b"a", b"b"])
    return made


def planner_of(
    metadata: Metadata,
    clock: SimulatedClock,
    *,
    drain: bool,
    file_bytes: int = 128 * MIB,
    troubles: Troubles | None = None,
) -> Planner:
    scope, policy = Scope(job="mine", drain=drain), CompactPolicy(file_bytes=file_bytes)
    holdings = Holdings(metadata.leases, scope.job, policy.session_s)
    troubles = troubles or Troubles(metadata.problems, clock)
    return Planner(metadata, NOBODY, holdings, troubles, scope, policy, clock)


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


async def asked_sizes(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch, clock: SimulatedClock | None = None
) -> list[list[TopicId]]:
    """The topics of each question for sizes from now on; with a clock each takes a second."""
    asked: list[list[TopicId]] = []
    ask = metadata.topics.wal_bytes

    async def noted(topic_ids: Sequence[TopicId]) -> dict[TopicPartition, int]:
        asked.append(list(topic_ids))
        if clock is not None:
            await clock.advance(1)
        return await ask(topic_ids)

    monkeypatch.setattr(metadata.topics, "wal_bytes", noted)
    return asked


async def test_sizes_are_asked_only_of_topics_that_do_not_rest(
    metadata: Metadata, clock: SimulatedClock, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = await metadata.topics.create("red", config={"lakestream.table.lag.ms": "900000"})
    await acknowledge(metadata, red, [b"a"])
    troubles = Troubles(metadata.problems, clock)
    troubles.topic_failed(red.id, Unavailable("no answer"))
    planner = planner_of(metadata, clock, drain=False, file_bytes=1, troubles=troubles)
    planner.jobs = ("other",)
    asked = await asked_sizes(metadata, monkeypatch)
    assert await planner.plan(0) is None
    assert asked == [[topic.id]]
    assert planner.waiting == {"orders"}
    await clock.advance(60)
    assert await planner.plan(0) is None
    assert sorted(asked[1]) == sorted([topic.id, red.id])


async def test_a_drain_asks_for_no_sizes_to_find_what_is_due(
    metadata: Metadata, clock: SimulatedClock, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = planner_of(metadata, clock, drain=True, file_bytes=1)
    planner.jobs = ("other",)
    asked = await asked_sizes(metadata, monkeypatch)
    assert await planner.plan(0) is None
    assert planner.waiting == {topic.name}
    assert asked == []


async def test_a_plan_reuses_the_sizes_of_its_look(
    metadata: Metadata, clock: SimulatedClock, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = planner_of(metadata, clock, drain=False, file_bytes=1)
    planner.jobs = ("mine",)
    await own_and_settle(planner, topic)
    asked = await asked_sizes(metadata, monkeypatch)
    number = await planner.plan(0)
    assert number is not None
    assert asked == [[topic.id]]
    plan = await metadata.tables.plan(number)
    assert plan is not None
    assert plan.ranges == {topic.id: (PlannedRange(0, 0, 2),)}


async def test_between_two_answers_a_topic_goes_by_its_growth_and_by_its_lag_target(
    metadata: Metadata, clock: SimulatedClock, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        other = await metadata.topics.create(name, config={"lakestream.table.lag.ms": "900000"})
        await acknowledge(metadata, other, [b"a", b"b"])
    (size,) = (await metadata.topics.wal_bytes([topic.id])).values()
    planner = planner_of(metadata, clock, drain=False, file_bytes=2 * size)
    planner.jobs = ("mine",)
    await own_and_settle(planner, topic)
    asked = await asked_sizes(metadata, monkeypatch, clock)
    assert await planner.plan(0) is None
    assert await planner.plan(0) is None
    assert await planner.plan(900_000) is not None
    await acknowledge(metadata, topic, [b"a", b"b"])
    number = await planner.plan(0)
    assert number is not None
    plan = await metadata.tables.plan(number)
    assert plan is not None
    assert plan.ranges == {topic.id: (PlannedRange(0, 0, 4),)}
    assert [len(topic_ids) for topic_ids in asked] == [3, 1, 1]


async def own_and_settle(planner: Planner, topic: Topic) -> None:
    assert await planner._holdings.take(topic.id)
    planner._holdings.settle(topic.id)
