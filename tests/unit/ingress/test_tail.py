"""Waking fetches: for the right partition, also across the gap between reading and waiting."""

import asyncio
from collections.abc import Mapping, Sequence

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.tail import TailWatch
from tests.support.segments import TOPIC_A

P0, P1 = TopicPartition(TOPIC_A, 0), TopicPartition(TOPIC_A, 1)
# Soon is long before for ever, and long enough for a machine that does much else.
SOON_S, FOR_EVER_S = 60.0, 3600.0


class Others:
    """Commits of other brokers, told when the test says so."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.told = asyncio.Event()
        self.asked: list[list[TopicPartition]] = []
        self.broken = False

    async def high_watermarks(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        self.asked.append(list(partitions))
        return {p: end for p, end in self.ends.items() if p in partitions}

    async def changed(self, within_s: float) -> None:
        if self.broken:
            self.broken = False
            raise Unavailable("gone")
        try:
            await asyncio.wait_for(self.told.wait(), within_s)
        except TimeoutError:
            return
        self.told.clear()


async def test_a_commit_wakes_who_waits_for_that_partition_and_nobody_else() -> None:
    tail = TailWatch(Others())
    with tail.watch([P0]) as mine, tail.watch([P1]) as other:
        waits = asyncio.create_task(mine.wait({P0: 5}, FOR_EVER_S))
        sleeps = asyncio.create_task(other.wait({P1: 5}, FOR_EVER_S))
        await asyncio.sleep(0)
        tail.committed({P0: 5})
        await asyncio.sleep(0.01)
        assert not waits.done()
        tail.committed({P0: 6})
        await asyncio.wait_for(waits, SOON_S)
        assert not sleeps.done()
        sleeps.cancel()
    assert tail.watched == 0


async def test_a_commit_between_reading_and_waiting_is_not_missed() -> None:
    tail = TailWatch(Others())
    with tail.watch([P0]) as watch:
        tail.committed({P0: 6})
        await asyncio.wait_for(watch.wait({P0: 5}, FOR_EVER_S), SOON_S)


async def test_a_wait_ends_when_its_time_is_over() -> None:
    tail = TailWatch(Others())
    loop = asyncio.get_running_loop()
    began = loop.time()
    with tail.watch([P0]) as watch:
        await asyncio.wait_for(watch.wait({P0: 5}, 0.05), SOON_S)
    assert loop.time() - began > 0.04


async def test_a_commit_through_another_broker_wakes_too_even_after_an_outage() -> None:
    others = Others()
    others.broken = True
    tail = TailWatch(others, poll_s=0.01)
    running = asyncio.create_task(tail.run())
    with tail.watch([P0]) as watch:
        waits = asyncio.create_task(watch.wait({P0: 5}, FOR_EVER_S))
        await asyncio.sleep(0.03)
        others.ends[P0] = 6
        others.told.set()
        await asyncio.wait_for(waits, SOON_S)
    running.cancel()


async def test_nobody_is_asked_while_nobody_waits() -> None:
    others = Others()
    tail = TailWatch(others, poll_s=0.005)
    running = asyncio.create_task(tail.run())
    await asyncio.sleep(0.05)
    assert others.asked == []
    running.cancel()
