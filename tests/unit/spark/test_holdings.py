"""Which job holds which table."""

from uuid import UUID

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.leases import Leases
from lakestream_spark.spark.holdings import Holdings, owner_of, sharing
from lakestream_spark.spark.scope import Scope
from tests.support.clock import SimulatedClock

TOPICS = [TopicId(UUID(int=n)) for n in range(200)]
SESSION_S = 10.0


@pytest.fixture
def clock():
    return SimulatedClock()


@pytest.fixture
async def metadata(clock):
    opened = await open_metadata("sqlite://", clock=clock)
    yield opened
    await opened.close()


def test_a_job_that_goes_moves_only_its_own_topics():
    before = {topic: owner_of(topic, ["a", "b", "c"]) for topic in TOPICS}
    after = {topic: owner_of(topic, ["a", "c"]) for topic in TOPICS}
    assert set(before.values()) == {"a", "b", "c"}
    assert all(after[topic] == owner for topic, owner in before.items() if owner != "b")


def job(name: str, **about: object) -> Job:
    return Job(id=name, kind="compact", started_ms=0, about={"topics": "*", **about})


@pytest.mark.parametrize(
    ("others", "drain", "expected"),
    [
        ([], False, ["me"]),
        ([], True, ["me"]),
        ([job("a")], False, ["a", "me"]),
        ([job("a"), job("me")], False, ["a", "me"]),
        ([job("a", topics="orders*")], False, ["me"]),
        ([job("a", begun=False)], False, ["me"]),
        ([job("a", begun=True), job("me", begun=False)], False, ["a", "me"]),
        ([job("a", drain=True)], False, ["me"]),
        ([job("a")], True, ["a"]),
        ([job("a"), job("b", drain=True)], True, ["a"]),
        ([job("a", begun=False)], True, ["me"]),
        ([job("a", drain=True)], True, ["a", "me"]),
        ([job("a", topics="orders*")], True, ["me"]),
    ],
)
def test_topics_are_shared_with_those_that_move_them_and_a_drain_owns_none_beside_a_job_that_stays(
    others: list[Job], drain: bool, expected: list[str]
) -> None:
    assert sharing(others, Scope(job="me", drain=drain)) == expected


async def test_a_table_is_settled_once_for_every_time_its_lease_was_taken(metadata, clock):
    mine = Holdings(metadata.leases, "mine", SESSION_S)
    other = Holdings(Leases(metadata.database, clock), "other", SESSION_S)
    topic = TOPICS[0]
    first = await mine.take(topic)
    assert first is not None
    assert not mine.is_settled(topic)
    mine.settle(topic)
    assert await mine.take(topic) == first
    assert mine.is_settled(topic)

    assert await other.take(topic) is None
    await clock.advance(SESSION_S)
    taken = await other.take(topic)
    assert taken is not None
    await mine.renew()
    assert mine.of(topic) is None
    assert mine.topics == []
    await other.give_back([topic])
    assert await mine.take(topic) not in (None, first)
    assert not mine.is_settled(topic)


async def test_a_holder_that_renews_keeps_its_tables(metadata, clock):
    mine = Holdings(metadata.leases, "mine", SESSION_S)
    other = Holdings(Leases(metadata.database, clock), "other", SESSION_S)
    await mine.take(TOPICS[0])
    for _ in range(5):
        assert await other.take(TOPICS[0]) is None
        await clock.advance(SESSION_S * 0.9)
        await mine.renew()
    assert mine.of(TOPICS[0]) is not None
