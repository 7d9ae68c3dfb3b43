"""A broker with its status page, in the test's own event loop, and what the page's JSON says."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from lakestream_spark.app import RunningBroker, serve
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.group_offsets import Commit, Committed
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.tables import Quarantined
from lakestream_spark.settings import Settings
from tests.support.lake_place import Place
from tests.support.sparkless import SparklessCompaction
from tests.support.verified import ONE_FILE

SOON_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that can be asked; `stop` ends its broker."""

    broker: RunningBroker
    url: str
    session: aiohttp.ClientSession
    stop: asyncio.Event

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        async with self.session.get(f"{self.url}{path}", headers=headers) as response:
            return response.status, await response.json()

    async def status(self) -> dict[str, Any]:
        code, found = await self.get("/api/status")
        assert code == 200, found
        return dict(found)

    async def topic(self, name: str) -> dict[str, Any]:
        """What the list says of one topic."""
        found = [each for each in (await self.status())["topics"] if each["name"] == name]
        assert len(found) == 1, found
        return dict(found[0])


@asynccontextmanager
async def served_page(settings: Settings) -> AsyncIterator[Page]:
    """Everything started as `lakestream ingress` does, on a free admin port."""
    own = settings.model_copy(
        update={"broker": settings.broker.model_copy(update={"admin_port": 0})}
    )
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(own, stop, lambda *found: ready.set_result(found)))
    try:
        await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await serving
        broker, port = ready.result()
        async with aiohttp.ClientSession() as session:
            yield Page(broker=broker, url=f"http://127.0.0.1:{port}", session=session, stop=stop)
    finally:
        stop.set()
        await serving


async def compacted(place: Path | Place) -> None:
    """Everything acknowledged so far is in the tables, without Spark."""

    def compact() -> None:
        compaction = SparklessCompaction(place, policy=ONE_FILE)
        try:
            compaction.run_until_drained()
        finally:
            compaction.close()

    await asyncio.to_thread(compact)


async def lived_in(
    page: Page, name: str, *, committed: int, succeeded_s: int, set_aside: int
) -> None:
    """A group committed this offset of the topic; the compaction succeeded so long ago, the upkeep
    never; partition 0 has a problem, and so many batches that were set aside."""
    metadata, now_ms = page.broker.metadata, int(time.time() * 1000)
    topic = await metadata.topics.get(name)
    lease = await metadata.leases.try_acquire(f"test {name}", "test", 600.0)
    assert lease is not None
    place = Committed(TopicPartition(topic.id, 0), committed)
    await metadata.group_offsets.commit(lease, 0, [Commit("billing", place, now_ms - 600_000)])
    remedy = "restore the segment from a back-up"
    problem = Problem(topic.id, 0, "a WAL segment is damaged", remedy, now_ms - 900_000, offset=33)
    await metadata.problems.report(lease, problem)
    for kind, success_ms in (("compact", now_ms - 1000 * succeeded_s), ("maintain", None)):
        job = Job(
            id=kind,
            kind=kind,
            started_ms=now_ms - 7_200_000,
            last_success_ms=success_ms,
            about={"topics": "*", "every_s": 600.0},
        )
        await metadata.jobs.beat(job)
    bad = [Quarantined(0, n, n + 1, f"file:///{n}.batch", "bad") for n in range(set_aside)]
    await metadata.tables.finish(lease, topic.id, "commit", {}, bad)
