"""First paint of the status page in a real Chromium, with few topics and with 200.

A broker of its own process serves topics of three partitions with records in them; every visit is
a browser context of its own, so nothing is cached. Measured from the start of the navigation: the
first paint with content, and the first frame after the rows of all topics are there. The first
visit after the broker's start is shown apart from those after it. The browser shares the machine.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.async_api import Browser

from tests.benchmarks.harness import Aim, Options, Report, run
from tests.benchmarks.servers import scratch
from tests.support.chromium import Chromium, find_or_fetch, launched
from tests.support.ingress_process import Listening, ingress

PARTITIONS: Final = 3
RECORDS: Final = 10
AIM_MS: Final = 500.0
WITH_AIM: Final = 200
_WITHIN_S: Final = 120.0
_TIMES: Final = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const painted = performance.getEntriesByName("topics-painted")[0];
  const asked = performance.getEntriesByType("resource").find((own) => /status$/.test(own.name));
  return paint && painted ? {
    first: paint.startTime, all: painted.startTime,
    answer: asked.responseEnd - asked.requestStart, bytes: asked.encodedBodySize,
  } : null;
}"""


def fill(bootstrap: str, topics: int) -> None:
    """Topics with a few records in every partition."""
    names = [f"topic-{number:03d}" for number in range(topics)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
    for each in made.values():
        each.result(_WITHIN_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in names:
        for number in range(RECORDS * PARTITIONS):
            producer.produce(name, b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    if producer.flush(_WITHIN_S):
        raise RuntimeError("not every record was acknowledged")


async def visit(browser: Browser, url: str, topics: int) -> dict[str, float]:
    """The times of one visit, in milliseconds."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = await context.new_page()
        await page.goto(url)
        found = await page.wait_for_function(_TIMES, timeout=1000 * _WITHIN_S)
        times: dict[str, float] = await found.json_value()
        rows = await page.locator("#topics tbody tr").count()
        if rows != topics:
            raise RuntimeError(f"the page shows {rows} of {topics} topics")
        return times
    finally:
        await context.close()


@asynccontextmanager
async def serving(folder: Path, topics: int) -> AsyncIterator[Listening]:
    with ingress(folder) as process:
        (broker,) = await asyncio.to_thread(process.ready)
        await asyncio.to_thread(fill, broker.kafka, topics)
        yield broker
        await asyncio.to_thread(process.stop)


def _add(report: Report, topics: int, when: str, visits: list[dict[str, float]]) -> None:
    middle: dict[str, Any] = {name: median(each[name] for each in visits) for name in visits[0]}
    report.add(
        topics=topics,
        visit=when,
        visits=len(visits),
        first_paint_ms=middle["first"],
        slowest_first_paint_ms=max(each["first"] for each in visits),
        all_topics_ms=middle["all"],
        slowest_all_topics_ms=max(each["all"] for each in visits),
        answer_ms=middle["answer"],
        answer_kb=middle["bytes"] / 1000,
    )
    if topics == WITH_AIM:
        name = f"status page, {topics} topics, {when}"
        report.aims.append(Aim.at_most(f"{name}: first paint", AIM_MS, middle["first"], "ms"))
        report.aims.append(Aim.at_most(f"{name}: all rows painted", AIM_MS, middle["all"], "ms"))


def _browser(report: Report) -> Chromium | None:
    try:
        return find_or_fetch()
    except pytest.skip.Exception as skipped:
        report.notes.append(f"without a browser: {skipped}")
        return None


async def measure(report: Report, options: Options) -> None:
    chromium = _browser(report)
    if chromium is None:
        return
    sizes, visits = ((5,), 2) if options.quick else ((20, WITH_AIM), 15)
    async with launched(chromium) as browser:
        for topics in sizes:
            with scratch() as folder:
                async with serving(folder, topics) as broker:
                    first = await visit(browser, broker.admin, topics)
                    again = [await visit(browser, broker.admin, topics) for _ in range(visits)]
                    _add(report, topics, "first", [first])
                    _add(report, topics, "later", again)


if __name__ == "__main__":
    run("status_page", measure)
