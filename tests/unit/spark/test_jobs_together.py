"""Compactions that run all the time: beside each other, a drain, a stuck partition, an outage."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import Producer

from lakestream_spark.app import RunningBroker
from lakestream_spark.core import metrics
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.spark.holdings import owner_of
from lakestream_spark.table.commit import lease_name
from tests.support import sparkless
from tests.support.embedded import embedded_lake
from tests.support.faulty_catalog import FaultyCatalog, faulty
from tests.support.kafka import Sent, consume, produce
from tests.support.sparkless import POLICY, SparklessCompaction

WITHIN_S = 60.0
LAG = "lakestream.table.lag.ms"


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path) as embedded:
        yield embedded


class SlowCompaction(SparklessCompaction):
    """A batch takes its time, and there is always a next one."""

    batches = 0

    def _batch(self, plan: int) -> None:
        time.sleep(0.5)
        super()._batch(plan)
        self.batches += 1


@asynccontextmanager
async def running(compaction: SparklessCompaction) -> AsyncIterator[SparklessCompaction]:
    """Runs as the real job does until the block ends."""
    stop = Event()
    task = asyncio.create_task(asyncio.to_thread(compaction.run_watched, stop))
    try:
        yield compaction
    finally:
        stop.set()
        await task
        await asyncio.to_thread(compaction.close)


@asynccontextmanager
async def producing(lake: RunningBroker, *places: tuple[str, int]) -> AsyncIterator[None]:
    """A record for each place every tenth of a second."""
    producer = Producer({"bootstrap.servers": lake.bootstrap, "linger.ms": 1})

    async def produce_for_ever() -> None:
        while True:
            for topic, partition in places:
                producer.produce(topic, b"v" * 100, partition=partition)
            producer.poll(0)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(produce_for_ever())
    try:
        yield
    finally:
        task.cancel()
        assert await asyncio.to_thread(producer.flush, WITHIN_S) == 0


async def send(lake: RunningBroker, topic: str, *values: bytes) -> None:
    await asyncio.to_thread(produce, lake.bootstrap, topic, [Sent(None, each) for each in values])


async def ends(lake: RunningBroker, topic: Topic) -> list[int]:
    return [each.table_end for each in (await lake.metadata.tables.ends(topic.id)).values()]


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def test_a_busy_job_hands_over_what_a_joining_one_owns_between_two_batches(
    lake: RunningBroker, tmp_path: Path
) -> None:
    names = [f"topic-{n}" for n in range(8)]
    topics = [await lake.metadata.topics.create(name, config={LAG: "1000"}) for name in names]
    # Beats far apart: none of them happens to fall between two batches.
    policy = replace(POLICY, session_s=8.0)
    async with (
        producing(lake, *((name, 0) for name in names)),
        running(SlowCompaction(tmp_path, drain=False, policy=policy)) as first,
    ):
        assert isinstance(first, SlowCompaction)

        async def all_are_begun() -> bool:
            return all([(await ends(lake, topic))[0] for topic in topics])

        await until(all_are_begun, "the first job does not move all topics")
        async with running(SparklessCompaction(tmp_path, drain=False, policy=policy)) as second:

            async def is_known() -> bool:
                return second.job in first.driver._planner.jobs

            await until(is_known, "the first job did not see the second one")
            batches = first.batches

            async def two_more_batches() -> bool:
                return first.batches >= batches + 2

            await until(two_more_batches, "the first job does not go on")
            both = sorted([first.job, second.job])
            handed_over = [topic for topic in topics if owner_of(topic.id, both) == second.job]
            held = await lake.metadata.leases.look([lease_name(each.id) for each in handed_over])
            assert first.job not in held.values()
            if handed_over:
                before = await ends(lake, handed_over[0])

                async def is_moved() -> bool:
                    return await ends(lake, handed_over[0]) > before

                await until(is_moved, "nobody moves what was handed over")


async def test_a_drain_beside_a_job_that_waits_for_its_lag_target_asks_it_and_ends(
    lake: RunningBroker, tmp_path: Path
) -> None:
    names = [f"topic-{n}" for n in range(6)]
    topics = [await lake.metadata.topics.create(name, config={LAG: "900000"}) for name in names]
    async with running(SparklessCompaction(tmp_path, drain=False)) as staying:
        for name in names:
            await send(lake, name, b"a", b"b")
        async with producing(lake, (names[0], 0)):
            drain = SparklessCompaction(tmp_path)
            try:
                await asyncio.to_thread(drain.run_until_drained, 20.0)
            finally:
                await asyncio.to_thread(drain.close)
        moved = [(await ends(lake, topic))[0] for topic in topics]
        assert moved[0] >= 2
        assert moved[1:] == [2] * 5
        assert staying.driver.tally.commits > 0


async def test_a_damaged_partition_makes_its_topic_commit_no_more_often(
    lake: RunningBroker, tmp_path: Path
) -> None:
    topic = await lake.metadata.topics.create("damaged", partitions=2, config={LAG: "4000"})
    await send(lake, "damaged", b"v" * 100)
    (extent,) = (await lake.metadata.extents.locate(TopicPartition(topic.id, 0), 0, 1)).extents
    path = tmp_path / segment_key(extent.segment_id)
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[extent.position + extent.length - 1] ^= 1
    path.write_bytes(spoiled)
    # Somebody waits for it, which makes it due at once: for nobody else.
    await lake.metadata.backlog.ask_flush(topic.id)
    async with running(SparklessCompaction(tmp_path, drain=False)) as compaction:

        async def is_told() -> bool:
            return bool(await lake.metadata.problems.list(topic.id))

        await until(is_told, "no problem was reported")
        began = time.monotonic()
        async with producing(lake, ("damaged", 1)):
            await asyncio.sleep(8.0)
        # A commit takes what has waited for 3 s at least: the target less a batch.
        assert compaction.driver.tally.commits <= 1 + (time.monotonic() - began) / 3
        assert metrics.TABLE_LAG_SECONDS.of("damaged").now() >= 8.0
        known = (await lake.metadata.tables.ends(topic.id))[1].high_watermark

        async def sibling_is_moved() -> bool:
            return await ends(lake, topic) == [0, known]

        await until(sibling_is_moved, "the healthy partition waits")
        path.write_bytes(whole)

        async def is_mended() -> bool:
            return await ends(lake, topic) == [1, known]

        await until(is_mended, "the restored partition waits")

        # Told as mended after the commit: a reader may see the one before the other.
        async def is_forgotten() -> bool:
            return not await lake.metadata.problems.list()

        await until(is_forgotten, "the mended problem is still told")


async def test_an_outage_of_the_catalog_under_a_running_job_is_a_lag_that_is_caught_up(
    lake: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparkless, "catalog_spec", lambda own: faulty(catalog_spec(own)))
    topic = await lake.metadata.topics.create("orders", config={LAG: "1000"})
    away = FaultyCatalog.is_away
    failures = metrics.TABLE_FAILURES.of("orders")
    async with running(SparklessCompaction(tmp_path, drain=False)):
        await send(lake, "orders", b"0")

        async def first_is_moved() -> bool:
            return await ends(lake, topic) == [1]

        await until(first_is_moved, "nothing was committed before the outage")
        away.set()
        try:
            failed = failures.value
            await send(lake, "orders", b"1")

            async def has_failed() -> bool:
                return failures.value >= failed + 2

            await until(has_failed, "the outage was not noticed")
            await send(lake, "orders", b"2")
            got = await asyncio.to_thread(consume, lake.bootstrap, "orders", offset=0, count=3)
            assert [each.value for each in got] == [b"0", b"1", b"2"]
            assert await ends(lake, topic) == [1]
            assert metrics.TABLE_LAG_RECORDS.of("orders").now() >= 1
            assert metrics.TABLE_LAG_SECONDS.of("orders").now() > 0
        finally:
            away.clear()

        async def all_is_moved() -> bool:
            return await ends(lake, topic) == [3]

        await until(all_is_moved, "the table did not catch up")
    assert await lake.metadata.problems.list() == []
