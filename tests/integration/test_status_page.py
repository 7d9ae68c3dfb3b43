"""The status page in a real browser: what a person sees, and that nothing of it runs or leaves.

Screenshots are left in `artifacts/status-page/`.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from playwright.async_api import Browser, expect
from playwright.async_api import Page as Tab

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.group_offsets import Commit, Committed
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.chromium import NEEDS_CHROMIUM, Chromium, chromium, launched
from tests.support.embedded import catalog_spec, lake_settings
from tests.support.kafka import Sent, produce
from tests.support.status_page import SOON_S, Page, compacted, lived_in, served_page

__all__ = ["chromium"]
pytestmark = [*NEEDS_CHROMIUM, pytest.mark.long]

SHOTS = Path(__file__).parents[2] / "artifacts" / "status-page"
SOON_MS = 1000 * SOON_S
expect.set_options(timeout=SOON_MS)
ATTACK = "</pre><img src=x onerror=hacked()><script>hacked()</script>"
SIZES = {"desktop": (1280, 900), "laptop": (1210, 800), "phone": (390, 844)}
SPILLING = """() => [...document.querySelectorAll("th, td, dt, dd")]
    .filter((cell) => getComputedStyle(cell.closest("thead") || cell).position !== "absolute")
    .filter((cell) => cell.scrollWidth > cell.clientWidth + 1)
    .map((cell) => cell.textContent)"""
"""The texts that reach out of their cells; heads that a phone leaves out do not count."""


@dataclass
class Seen:
    """What a tab did beside showing its page."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def watch(self, tab: Tab) -> None:
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("console", lambda message: self.complaints.append(message.text))


@pytest.fixture
async def browser(chromium: Chromium) -> AsyncIterator[Browser]:
    async with launched(chromium) as running:
        yield running


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with served_page(lake_settings(tmp_path)) as served:
        yield served


@asynccontextmanager
async def opened(browser: Browser, url: str, **context: Any) -> AsyncIterator[tuple[Tab, Seen]]:
    """A tab of its own on the address."""
    own = await browser.new_context(**context)
    own.set_default_timeout(SOON_MS)
    try:
        tab, seen = await own.new_page(), Seen()
        seen.watch(tab)
        await tab.goto(url)
        yield tab, seen
    finally:
        await own.close()


async def send(page: Page, topic: str, *records: Sent) -> None:
    await asyncio.to_thread(produce, page.broker.bootstrap, topic, records)


def order(number: int) -> Sent:
    value = {"order": number, "customer": "Grace Hopper", "amount": 12.5 * number}
    return Sent(b"order-%d" % number, json.dumps(value).encode(), [("trace", b"t-%d" % number)])


def at(**where: object) -> str:
    return "#" + urlencode(where)


def row(tab: Tab, name: str, grid: str = "topics") -> Any:
    return tab.locator(f"#{grid} tbody tr", has_text=name)


def cell(tab: Tab, name: str, label: str, grid: str = "topics") -> Any:
    return row(tab, name, grid).locator(f"td[data-label='{label}']")


async def lived_in_orders(page: Page, folder: Path) -> None:
    """Offsets 10 to 29 are in the table, 30 to 39 in the WAL; a group is at 4, which is gone."""
    await send(page, "orders", *map(order, range(30)))
    await compacted(folder)
    await send(page, "orders", *map(order, range(30, 40)))
    admin = AdminClient({"bootstrap.servers": page.broker.bootstrap})
    deleted = admin.delete_records([Place("orders", 0, 10)])
    await asyncio.to_thread(next(iter(deleted.values())).result, SOON_S)
    await lived_in(page, "orders", committed=4, succeeded_s=300, set_aside=2)


async def test_live_numbers_change_while_records_come(page: Page, browser: Browser) -> None:
    await send(page, "orders", *map(order, range(5)))
    async with opened(browser, page.url) as (tab, seen):
        await expect(cell(tab, "orders", "High watermark")).to_have_text("5")
        await expect(cell(tab, "orders", "Records/s")).to_have_text("0")
        await send(page, "orders", *map(order, range(2_000)))
        await expect(cell(tab, "orders", "High watermark")).to_have_text("2,005")
        await expect(cell(tab, "orders", "Records/s")).not_to_have_text("0")
        await expect(tab.locator("#brokers tbody tr")).to_contain_text(page.broker.bootstrap)
        await tab.fill("#filter", "nothing like it")
        await expect(tab.locator("#topics tbody tr")).to_have_count(0)
    assert [url for url in seen.requests if not url.startswith(f"{page.url}/")] == []
    assert seen.complaints == []


async def test_the_seam_the_groups_the_jobs_and_the_problems_are_shown_as_they_are(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    await lived_in_orders(page, tmp_path)
    told = "log start 10, table end 30, high watermark 40"
    async with opened(browser, page.url) as (tab, seen):
        bar = row(tab, "orders").locator(".bar")
        await expect(bar).to_have_attribute("aria-label", told)
        in_table, in_wal = [await part.bounding_box() for part in await bar.locator("span").all()]
        assert in_table["width"] == pytest.approx(2 * in_wal["width"], abs=1)
        await expect(cell(tab, "orders", "Not in table")).to_have_text(re.compile(r"^10, \d+ s$"))
        await expect(cell(tab, "orders", "Set aside")).to_have_text("2")
        await expect(row(tab, "orders").locator(".state.red")).to_have_text("red")
        # From the log start on: what was deleted is nobody's to read.
        await expect(cell(tab, "billing", "Behind", "groups")).to_have_text("30")
        await expect(cell(tab, "billing", "Topics", "groups")).to_have_text("orders: 30")
        await expect(cell(tab, "billing", "Last commit", "groups")).to_have_text("10 min ago")
        await expect(cell(tab, "compact", "Last success", "jobs")).to_have_text("5 min ago")
        await expect(cell(tab, "maintain", "Last success", "jobs")).to_have_text("never")
        problem = "orders partition 0 at offset 33: a WAL segment is damaged (for 15 min)"
        await expect(tab.locator("#problems li")).to_contain_text(problem)
        await tab.goto(f"{page.url}/{at(view='topic', topic='orders')}")
        own = row(tab, "partition 0", "partitions").locator(".bar")
        await expect(own).to_have_attribute("aria-label", told)
        await expect(tab.locator("#topic-sums-Setaside")).to_have_text("2")
        await check_labels(tab, "partition 0", ["table end 30", "start 10", "high watermark 40"])
    assert seen.complaints == []


async def check_labels(tab: Tab, partition: str, labels: list[str]) -> None:
    """Each stands where its offset is on the bar."""
    own = row(tab, partition, "partitions")
    seam, start, end = [await own.get_by_text(label, exact=True).bounding_box() for label in labels]
    in_table, in_wal = [await each.bounding_box() for each in await own.locator(".bar span").all()]
    assert start["x"] == pytest.approx(in_table["x"], abs=1)
    assert end["x"] + end["width"] == pytest.approx(in_wal["x"] + in_wal["width"], abs=1)
    share = in_table["width"] / (in_table["width"] + in_wal["width"])
    assert seam["x"] + share * seam["width"] == pytest.approx(in_wal["x"], abs=3)


async def test_the_label_of_the_table_end_stays_on_the_bar(page: Page, browser: Browser) -> None:
    await page.broker.metadata.topics.create("empty")
    await send(page, "new", *map(order, range(3)))
    async with opened(browser, page.url) as (tab, _):
        for topic, end in (("empty", 0), ("new", 3)):
            await tab.goto(f"{page.url}/{at(view='topic', topic=topic)}")
            own = row(tab, "partition 0", "partitions")
            await expect(own).to_contain_text(f"high watermark {end}")
            seam = await own.get_by_text("table end 0", exact=True).bounding_box()
            bar = await own.locator(".bar").bounding_box()
            assert seam["x"] == pytest.approx(bar["x"], abs=1)


async def test_records_are_browsed_across_the_seam(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    await send(page, "orders", *map(order, range(3)))
    await compacted(tmp_path)
    await send(page, "orders", *map(order, range(3, 5)))
    async with opened(browser, page.url) as (tab, seen):
        await tab.click("nav >> text=Records")
        await tab.fill("input[name=topic]", "orders")
        await tab.fill("input[name=offset]", "2")
        await tab.click("text=Show")
        source, found = tab.locator("#source"), tab.locator("#found")
        await expect(source).to_have_text("from the table")
        await expect(found).to_contain_text('"customer": "Grace Hopper"')
        await expect(found).to_contain_text("order-2")
        await tab.click("#next")
        await expect(source).to_have_text("from the WAL")
        await expect(found).to_contain_text("offset 3")
        await tab.click("#last")
        await expect(found).to_contain_text("offset 4")
        await expect(tab.locator("#next")).to_be_disabled()
        await tab.click("#first")
        await expect(found).to_contain_text("offset 0")
        await expect(source).to_have_text("from the table")
        await tab.locator(".block", has_text="Key").get_by_text("Hex").click()
        await expect(found).to_contain_text("6f 72 64 65 72 2d 30")
        await tab.fill("input[name=offset]", "77")
        await tab.click("text=Show")
        await expect(found).to_contain_text("has the offsets 0 to 4, and no 77")
    assert [each for each in seen.complaints if "404" not in each] == []


async def test_the_newest_record_is_found_before_erased_ones_and_buttons_lead_back(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    await send(page, "orders", *map(order, range(6)))
    await compacted(tmp_path)
    await asyncio.to_thread(erase, tmp_path, "__offset >= 4")
    topic = at(view="topic", topic="orders")
    async with opened(browser, f"{page.url}/{topic}") as (tab, _):
        await tab.get_by_role("link", name="newest").click()
        await expect(tab.locator("#found")).to_contain_text("orders, partition 0, offset 3")
        # An old link, or a person, asks for what is gone.
        await tab.goto(f"{page.url}/{at(view='record', topic='orders', partition=0, offset=5)}")
        await expect(tab.locator("#found")).to_contain_text("no record is left at offset 5")
        await expect(tab.locator("#next")).to_be_disabled()
        await tab.click("#last")
        await expect(tab.locator("#found")).to_contain_text("orders, partition 0, offset 3")
        await tab.go_back()
        await tab.click("#first")
        await expect(tab.locator("#found")).to_contain_text("orders, partition 0, offset 0")


def erase(folder: Path, rows: str) -> None:
    """As another engine does it."""
    with closing(StreamCatalog.open(catalog_spec(folder))) as catalog:
        catalog._catalog.load_table(("streams", "orders")).delete(rows)


async def test_what_others_sent_is_text_and_runs_nowhere(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    attack = ATTACK.encode()
    await send(page, "orders", Sent(attack, b'{"a": "' + attack + b'"}', [(ATTACK, attack)]))
    await send(page, "orders", Sent(attack, attack))
    metadata = page.broker.metadata
    topic = await metadata.topics.get("orders")
    lease = await metadata.leases.try_acquire("test", "test", 600.0)
    assert lease is not None
    committed = Committed(TopicPartition(topic.id, 0), 1)
    await metadata.group_offsets.commit(lease, 0, [Commit(ATTACK, committed, 1)])
    await metadata.problems.report(lease, Problem(topic.id, None, ATTACK, ATTACK, 1))
    await metadata.jobs.beat(Job(id=ATTACK, kind=ATTACK, started_ms=1, about={"topics": ATTACK}))
    async with opened(browser, page.url) as (tab, seen):
        for place in ("#problems", "#groups", "#jobs"):
            await expect(tab.locator(place)).to_contain_text(ATTACK)
        for offset in (0, 1):
            address = at(view="record", topic="orders", partition=0, offset=offset)
            await tab.goto(f"{page.url}/{address}")
            await expect(tab.locator("#found")).to_contain_text(f"offset {offset}")
            for way in await tab.locator("#found button").all():
                await way.click()
            await expect(tab.locator("#found")).to_contain_text("3c 2f 70 72 65 3e")
        await tab.goto(f"{page.url}/{at(view='topic', topic=ATTACK)}")
        await expect(tab.locator("#topic-title")).to_have_text(ATTACK)
        await expect(tab.locator("#trouble")).to_contain_text("no such topic")
        assert await tab.locator("main img, main script").count() == 0
        assert await tab.evaluate("typeof hacked") == "undefined"
        # Even markup that got in would neither run nor load: the policy is in force.
        markup = "<img src=http://127.0.0.9:9/x onerror=hacked()>"
        await tab.evaluate("markup => { document.body.innerHTML = markup }", markup)
        async with asyncio.timeout(SOON_S):
            while not any("Content Security Policy" in each for each in seen.complaints):
                await asyncio.sleep(0.05)
    assert all(url.startswith(page.url) for url in seen.requests if "127.0.0.9" not in url)


async def test_every_view_fits_a_desk_and_a_phone_by_day_and_by_night(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    long_name = "payments-with-a-rather-long-name.and.dots.in.it-" + "x" * 60
    await send(page, long_name, *map(order, range(30)))
    await lived_in_orders(page, tmp_path)
    SHOTS.mkdir(parents=True, exist_ok=True)
    record = at(view="record", topic="orders", partition=0, offset=35)
    views = {"list": "", "topic": at(view="topic", topic="orders"), "record": record}
    ready = {
        "list": "#topics .late",
        "topic": "#snapshots tbody tr",
        "record": "#source",
    }
    for size, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            how = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
            async with opened(browser, page.url, **how) as (tab, _):
                for view, address in views.items():
                    await tab.goto(f"{page.url}/{address}")
                    await tab.locator(ready[view]).first.wait_for()
                    taken = await tab.evaluate("document.documentElement.scrollWidth")
                    assert (view, size, taken) == (view, size, width)
                    assert (view, size, await tab.evaluate(SPILLING)) == (view, size, [])
                    back = await tab.evaluate("getComputedStyle(document.body).backgroundColor")
                    assert (back == "rgb(16, 22, 27)") == (scheme == "dark")
                    shot = SHOTS / f"{view}-{size}-{scheme}.png"
                    await tab.screenshot(path=shot, full_page=True)


async def test_a_page_whose_broker_stops_says_so(page: Page, browser: Browser) -> None:
    await send(page, "orders", order(1))
    async with opened(browser, page.url) as (tab, _):
        await expect(cell(tab, "orders", "High watermark")).to_have_text("1")
        page.stop.set()
        await expect(tab.locator("#trouble")).to_be_visible()
        await expect(tab.locator("#trouble")).to_contain_text("The broker does not answer")
        await expect(cell(tab, "orders", "High watermark")).to_have_text("1")


async def test_a_browser_is_asked_for_the_token_once(tmp_path: Path, browser: Browser) -> None:
    token = "a-token-for-the-tests"
    more = {"broker.admin_host": "0.0.0.0", "broker.admin_token": token}
    async with served_page(lake_settings(tmp_path, more=more)) as page:
        async with opened(browser, "about:blank") as (tab, _):
            answer = await tab.goto(page.url)
            assert answer is not None
            assert answer.status == 401
        known = {"username": "me", "password": token}
        async with opened(browser, page.url, http_credentials=known) as (tab, _):
            await expect(tab.locator("#pulse")).to_contain_text("broker 1")
