"""What waits in the WAL is asked for as often as it is cheap, and estimated in between."""

import pytest

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.turns import Sizes
from lakestream_spark.spark.wal_sizes import WalSizes
from lakestream_spark.table.commit import lease_name
from tests.support.clock import SimulatedClock
from tests.support.tables import acknowledge

ANSWER_S = 0.2


class Asked:
    """The questions that reached the store, each of which takes `ANSWER_S`."""

    def __init__(
        self, metadata: Metadata, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.times = 0
        ask, ask_all = metadata.topics.wal_bytes, metadata.backlog.wal_bytes

        async def of_topics(topic_ids: object) -> Sizes:
            self.times += 1
            await clock.advance(ANSWER_S)
            return await ask(topic_ids)  # type: ignore[arg-type]

        async def of_all() -> int:
            self.times += 1
            await clock.advance(ANSWER_S)
            return await ask_all()

        monkeypatch.setattr(metadata.topics, "wal_bytes", of_topics)
        monkeypatch.setattr(metadata.backlog, "wal_bytes", of_all)


@pytest.fixture
async def topic(metadata: Metadata) -> Topic:
    made = await metadata.topics.create("orders")
    await acknowledge(metadata, made, [bytes(1000)])
    return made


@pytest.fixture
def asked(metadata: Metadata, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(metadata, clock, monkeypatch)


async def size(metadata: Metadata, sizes: WalSizes, topic: Topic) -> int:
    found = await sizes.of(await metadata.backlog.pending())
    return found.get(TopicPartition(topic.id, 0), 0)


async def test_an_answer_is_asked_for_again_after_ten_times_what_it_took(
    metadata: Metadata, clock: SimulatedClock, topic: Topic, asked: Asked
) -> None:
    sizes = WalSizes(metadata, clock)

    async def of_one() -> int:
        return await size(metadata, sizes, topic)

    for question in (of_one, sizes.total):
        asked.times = 0
        first = await question()
        await clock.advance(9.9 * ANSWER_S)
        assert await question() == first
        assert asked.times == 1
        await clock.advance(0.2 * ANSWER_S)
        assert await question() == first
        assert asked.times == 2


async def test_a_slow_answer_makes_no_pause_without_end(
    metadata: Metadata, clock: SimulatedClock, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.spark.test_wal_sizes.ANSWER_S", 1000.0)
    sizes = WalSizes(metadata, clock)
    await sizes.total()
    await clock.advance(31)
    await sizes.total()
    assert asked.times == 2


@pytest.mark.usefixtures("asked")
async def test_what_arrives_and_what_is_moved_is_seen_before_the_next_answer(
    metadata: Metadata, clock: SimulatedClock, topic: Topic
) -> None:
    sizes = WalSizes(metadata, clock)
    one = await size(metadata, sizes, topic)
    assert one > 1000
    for _ in range(2):
        await acknowledge(metadata, topic, [bytes(1000)])
    assert await size(metadata, sizes, topic) == 3 * one
    lease = await metadata.leases.try_acquire(lease_name(topic.id), "me", 10.0)
    assert lease is not None
    await metadata.tables.finish(lease, topic.id, "c", {0: 2})
    assert await size(metadata, sizes, topic) == one


@pytest.mark.usefixtures("asked")
async def test_only_what_was_asked_at_this_look_is_exact(
    metadata: Metadata, clock: SimulatedClock, topic: Topic
) -> None:
    sizes = WalSizes(metadata, clock)
    await sizes.total()
    assert sizes.exact == {}
    one = await size(metadata, sizes, topic)
    assert sizes.exact == {TopicPartition(topic.id, 0): one}
    await sizes.total()
    await size(metadata, sizes, topic)
    assert sizes.exact == {}


async def test_a_partition_that_nobody_asked_about_counts_as_empty(
    metadata: Metadata, clock: SimulatedClock, topic: Topic, asked: Asked
) -> None:
    sizes = WalSizes(metadata, clock)
    assert await size(metadata, sizes, topic) > 0
    later = await metadata.topics.create("later")
    await acknowledge(metadata, later, [bytes(1000)])
    assert await size(metadata, sizes, later) == 0
    await clock.advance(11 * ANSWER_S)
    assert await size(metadata, sizes, later) > 0
    assert asked.times == 2
