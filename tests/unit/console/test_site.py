"""The status page's answers on real stores: what it shows, and to whom."""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.groups.slots import lease_name, slot_of
from lakestream_spark.metadata.database import Execute, Transaction
from lakestream_spark.metadata.group_offsets import Commit, Committed
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.sqlite import SqliteDatabase
from lakestream_spark.metadata.tables import Quarantined
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec, lake_settings
from tests.support.kafka import Sent, produce
from tests.support.status_page import SOON_S, Page, compacted, served_page

TOKEN = "a-token-for-the-tests"
WRONG = (
    ("topic=no", 400, "name the partition"),
    ("partition=0&offset=0", 400, "name the topic"),
    ("topic=no&partition=0&offset=0", 404, "no such topic"),
    ("topic=%3Cb%3E&partition=0&offset=0", 404, "no such topic"),
    ("topic=orders&partition=7&offset=0", 404, "orders has partitions 0 to 0, and no 7"),
    ("topic=orders&partition=0&offset=2", 404, "has the offsets 0 to 1, and no 2"),
    ("topic=empty&partition=0&offset=0", 404, "partition 0 of empty has no records"),
    ("topic=orders&partition=0&offset=-1", 400, "the offset is a number from 0 on, not '-1'"),
    ("topic=orders&partition=0&offset=%D9%A3", 400, "the offset is a number from 0 on"),
    ("topic=orders&partition=0&offset=" + "9" * 50, 400, "the offset is a number"),
    ("topic=orders&partition=0&offset=0&toward=up", 400, "toward is next or previous"),
)
PATHS = ("/", "/static/page.js", "/static/page.css", "/static/icon.svg", "/api/status")


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with served_page(lake_settings(tmp_path)) as served:
        yield served


async def send(page: Page, topic: str, *records: Sent) -> None:
    await asyncio.to_thread(produce, page.broker.bootstrap, topic, records)


async def test_topics_show_their_borders_and_the_rates_of_their_records(page: Page) -> None:
    await page.broker.metadata.topics.create("empty", partitions=3)
    await send(page, "orders", *(Sent(b"k", b"v" * 100) for _ in range(10)))
    before = await page.topic("orders")
    assert before["records_per_s"] is None
    borders = ("log_start", "table_end", "high_watermark", "lag_records")
    assert [before[name] for name in borders] == [0, 0, 10, 10]
    async with asyncio.timeout(SOON_S):
        while not (now := await page.topic("orders"))["records_per_s"]:
            await send(page, "orders", *(Sent(b"k", b"v" * 100) for _ in range(40)))
    assert now["high_watermark"] > before["high_watermark"]
    # Each record has about 110 bytes in its batch.
    assert 50 < now["bytes_per_s"] / now["records_per_s"] < 150
    assert now["lag_s"] > 0
    empty = await page.topic("empty")
    assert (empty["partitions"], empty["high_watermark"]) == (3, 0)


async def test_groups_brokers_jobs_and_problems_are_shown(page: Page) -> None:
    await send(page, "orders", *(Sent(None, b"v") for _ in range(10)))
    metadata = page.broker.metadata
    topic = await metadata.topics.get("orders")
    slot = slot_of("billing")
    lease = await metadata.leases.try_acquire(f"test {lease_name(slot)}", "test", 60.0)
    assert lease is not None
    committed = Commit("billing", Committed(TopicPartition(topic.id, 0), 4), 1_000)
    await metadata.group_offsets.commit(lease, slot, [committed])
    problem = Problem(topic.id, 0, "it is broken", "mend it", 7, offset=3)
    await metadata.problems.report(lease, problem)
    job = Job(id="1", kind="compact", started_ms=5, last_success_ms=6, about={"topics": "o*"})
    await metadata.jobs.beat(job)
    found = await page.status()
    assert found["groups"] == [
        {
            "group": "billing",
            "has_members": False,
            "lag": 6,
            "topics": [{"topic": "orders", "lag": 6, "committed_ms": 1_000}],
        }
    ]
    (broker,) = found["brokers"]
    assert (broker["node_id"], broker["live"]) == (1, True)
    assert broker["address"] == page.broker.bootstrap
    assert found["jobs"] == [
        {
            "id": "1",
            "kind": "compact",
            "topics": "o*",
            "started_ms": 5,
            "last_success_ms": 6,
            "live": True,
        }
    ]
    (shown,) = found["problems"]
    assert (shown["topic"], shown["partition"], shown["offset"]) == ("orders", 0, 3)
    assert (shown["sentence"], shown["remedy"]) == ("it is broken", "mend it")
    assert found["topics"][0]["state"] == "red"


async def test_a_late_table_is_red_unless_a_compaction_has_just_begun(page: Page) -> None:
    await send(page, "orders", Sent(None, b"v"))
    metadata = page.broker.metadata
    await metadata.database.run(_an_hour_older())
    # Another kind, other topics: nobody brings this table on.
    now_ms = int(time.time() * 1000)
    for kind, topics in (("maintain", "*"), ("compact", "pay*")):
        about = {"topics": topics}
        await metadata.jobs.beat(Job(id=kind, kind=kind, started_ms=now_ms, about=about))
    found = await page.status()
    (problem,) = found["problems"]
    assert (found["topics"][0]["state"], problem["topic"]) == ("red", "orders")
    assert "behind its stream, lakestream.table.lag.ms asks for 60 s" in problem["sentence"]
    assert problem["sentence"].endswith("no compaction is running for it")
    assert problem["remedy"] == "start `lakestream up`, or `lakestream compact`"
    await metadata.jobs.beat(Job(id="new", kind="compact", started_ms=now_ms, about={}))
    async with asyncio.timeout(SOON_S):
        while (found := await page.status())["problems"]:
            await asyncio.sleep(0.1)
    assert found["topics"][0]["state"] == "late"


def _an_hour_older() -> Transaction[None]:
    yield Execute("UPDATE segments SET created_ms = created_ms - 3600000")


async def test_batches_that_were_set_aside_are_counted_with_a_table_or_without(page: Page) -> None:
    await send(page, "orders", *(Sent(None, b"v") for _ in range(3)))
    assert (await page.topic("orders"))["quarantined"] == 0
    metadata = page.broker.metadata
    topic = await metadata.topics.get("orders")
    lease = await metadata.leases.try_acquire("test", "test", 60.0)
    assert lease is not None
    bad = [Quarantined(0, n, n + 1, f"file:///{n}.batch", "bad") for n in range(2)]
    await metadata.tables.finish(lease, topic.id, "commit", {0: 2}, bad)
    async with asyncio.timeout(SOON_S):
        while not (found := await page.topic("orders"))["quarantined"]:
            await asyncio.sleep(0.1)
    assert (found["quarantined"], found["table"], found["state"]) == (2, None, "well")


async def test_a_topic_shows_its_partitions_and_its_settings(page: Page) -> None:
    config = {"lakestream.table.lag.ms": "2000"}
    await page.broker.metadata.topics.create("orders", partitions=2, config=config)
    code, found = await page.get("/api/topic?topic=orders")
    assert code == 200
    assert found["config"] == config
    assert [each["partition"] for each in found["partitions"]] == [0, 1]
    assert (found["table"], found["table_trouble"]) == (None, None)


async def test_a_record_in_the_wal_is_shown_as_it_was_sent(page: Page) -> None:
    sent = Sent(b"\xff\0", b'{"a":1}', [("h", None), ("h", b"x")], 1_700_000_000_123)
    half_a_character = Sent(None, b'{"a": "\\ud800"}')
    await send(page, "orders", Sent(None, b""), sent, half_a_character)
    code, found = await page.get("/api/record?topic=orders&partition=0&offset=1")
    assert code == 200
    assert (found["source"], found["offset"], found["where"][:4]) == ("wal", 1, "wal/")
    assert (found["timestamp_ms"], found["timestamp_type"]) == (1_700_000_000_123, "create")
    assert (found["key"]["text"], found["key"]["hex"]) == (None, "ff 00")
    assert found["value"]["json"] == '{\n  "a": 1\n}'
    assert [each["key"] for each in found["headers"]] == ["h", "h"]
    assert found["headers"][0]["value"] is None
    assert found["headers"][1]["value"]["text"] == "x"
    assert (found["previous"], found["next"]) == (0, 2)
    code, found = await page.get("/api/record?topic=orders&partition=0&offset=0")
    assert (found["key"], found["value"]["size"]) == (None, 0)
    assert (found["previous"], found["next"]) == (None, 1)
    code, found = await page.get("/api/record?topic=orders&partition=0&offset=2")
    assert (code, found["next"], found["value"]["json"][:11]) == (200, None, '{\n  "a": "\ud800')


async def test_a_wrong_question_gets_one_sentence(page: Page) -> None:
    await page.broker.metadata.topics.create("empty")
    await send(page, "orders", Sent(None, b"a"), Sent(None, b"b"))
    for asked, code, sentence in WRONG:
        found_code, found = await page.get(f"/api/record?{asked}")
        assert (asked, found_code) == (asked, code), found
        assert sentence in found["error"]


@pytest.mark.long
async def test_records_and_facts_of_the_table_are_shown(page: Page, tmp_path: Path) -> None:
    await send(page, "orders", *(Sent(b"k%d" % n, b"v%d" % n) for n in range(5)))
    await compacted(tmp_path)
    await send(page, "orders", Sent(b"k5", b"v5"))
    sources = []
    for offset in range(6):
        question = f"/api/record?topic=orders&partition=0&offset={offset}&toward=previous"
        code, found = await page.get(question)
        assert code == 200, found
        assert (found["offset"], found["value"]["text"]) == (offset, f"v{offset}")
        sources.append(found["source"])
    assert sources == ["table"] * 5 + ["wal"]
    async with asyncio.timeout(SOON_S):
        while (await page.topic("orders"))["table"] is None:
            await asyncio.sleep(0.1)
        while (found := (await page.get("/api/topic?topic=orders"))[1])["table"] is None:
            await asyncio.sleep(0.1)
    table = found["table"]
    assert (table["table"], table["files"], table["snapshots"]) == ("streams.orders", 1, 1)
    assert table["bytes"] == table["median_bytes"] > 0
    (snapshot,) = table["newest_snapshots"]
    assert (snapshot["rows"], snapshot["operation"]) == (5, "append")
    assert snapshot["snapshot_id"].isdecimal()


@pytest.mark.long
async def test_where_rows_were_erased_the_nearest_record_is_shown(
    page: Page, tmp_path: Path
) -> None:
    await send(page, "orders", *(Sent(b"k", b"v%d" % n) for n in range(6)))
    await compacted(tmp_path)
    await asyncio.to_thread(erase, tmp_path, "__offset >= 1 AND __offset <= 3")
    where = "/api/record?topic=orders&partition=0"
    for toward, offset in (("next", 4), ("previous", 0)):
        code, found = await page.get(f"{where}&offset=2&toward={toward}")
        assert (code, found["asked"], found["offset"]) == (200, 2, offset)
        assert found["value"]["text"] == f"v{offset}"
    await asyncio.to_thread(erase, tmp_path, "__offset = 0")
    async with asyncio.timeout(SOON_S):
        while (await page.get(f"{where}&offset=0"))[1]["offset"] == 0:
            await asyncio.sleep(0.1)
    code, found = await page.get(f"{where}&offset=3&toward=previous")
    assert (code, found) == (404, {"error": "no record is left at offset 3 or before it"})


@pytest.mark.long
async def test_a_record_is_found_before_a_thousand_erased_ones(page: Page, tmp_path: Path) -> None:
    await send(page, "orders", *(Sent(None, b"v%d" % n) for n in range(1000)))
    await compacted(tmp_path)
    await asyncio.to_thread(erase, tmp_path, "(__offset > 3 AND __offset < 7) OR __offset > 9")
    where = "/api/record?topic=orders&partition=0"
    for asked, nearest in ((999, 9), (600, 9), (10, 9), (9, 9), (6, 3), (3, 3)):
        code, found = await page.get(f"{where}&offset={asked}&toward=previous")
        assert (code, asked, found["offset"]) == (200, asked, nearest), found
        assert found["value"]["text"] == f"v{nearest}"
    assert (await page.get(f"{where}&offset=5"))[1]["offset"] == 7
    code, found = await page.get(f"{where}&offset=10")
    assert (code, found) == (404, {"error": "no record is left at offset 10 or after it"})


def erase(folder: Path, rows: str) -> None:
    """As another engine does it."""
    with closing(StreamCatalog.open(catalog_spec(folder))) as catalog:
        catalog._catalog.load_table(("streams", "orders")).delete(rows)


@pytest.mark.long
async def test_a_catalog_that_is_away_is_said_and_nothing_waits_for_it(tmp_path: Path) -> None:
    async with served_page(lake_settings(tmp_path)) as page:
        await send(page, "orders", Sent(b"k", b"v"))
        await compacted(tmp_path)
    away = {"catalog.uri": f"sqlite:///{tmp_path}/no-such-folder/catalog.db"}
    async with served_page(lake_settings(tmp_path, more=away)) as page:
        assert (await page.topic("orders"))["table_end"] == 1
        async with asyncio.timeout(SOON_S):
            while (trouble := (await page.status())["tables_trouble"]) is None:
                await asyncio.sleep(0.1)
        assert trouble.startswith("the table of orders cannot be looked at: the catalog")
        code, found = await page.get("/api/topic?topic=orders")
        assert (code, found["table"]) == (200, None)
        assert found["table_trouble"]


async def test_a_metadata_store_that_hangs_is_said_and_comes_back(page: Page) -> None:
    database = page.broker.metadata.database
    assert isinstance(database, SqliteDatabase)
    goes_on = Event()
    held: Future[bool] = database._reader._thread.submit(goes_on.wait, 600.0)
    try:
        code, found = await page.get("/api/status")
        assert code == 503
        assert found == {"error": "the metadata store does not answer within 2 s"}
    finally:
        goes_on.set()
    assert await asyncio.wrap_future(held)
    async with asyncio.timeout(SOON_S):
        while (await page.get("/api/status"))[0] != 200:
            await asyncio.sleep(0.1)


async def test_every_answer_forbids_what_is_not_its_own(page: Page) -> None:
    for path in (*PATHS, "/api/record?topic=%3Cscript%3E"):
        async with page.session.get(f"{page.url}{path}") as response:
            assert response.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Cache-Control"] == "no-store"
            assert "Access-Control-Allow-Origin" not in response.headers
            assert await response.read()
        async with page.session.post(f"{page.url}{path}") as response:
            assert response.status == 405


async def test_a_loopback_page_answers_to_its_own_names_only(page: Page) -> None:
    for path in PATHS:
        code, found = await page.get(path, {"Host": "evil.example"})
        assert code == 403
        assert found["error"].startswith("the status page is for this machine only")
    async with page.session.get(f"{page.url}/metrics", headers={"Host": "scraper"}) as response:
        assert response.status == 200


async def test_elsewhere_the_page_needs_the_token_and_scrapers_do_not(tmp_path: Path) -> None:
    more = {"broker.admin_host": "0.0.0.0", "broker.admin_token": TOKEN}
    async with served_page(lake_settings(tmp_path, more=more)) as page:
        for path in PATHS:
            async with page.session.get(f"{page.url}{path}") as response:
                assert response.status == 401
                assert response.headers["WWW-Authenticate"].startswith("Basic ")
        code, found = await page.get("/api/status", {"Authorization": "Bearer not-this-one"})
        assert (code, found) == (401, {"error": "the token is not the one of broker.admin_token"})
        password = b64encode(f"anybody:{TOKEN}".encode()).decode()
        for given in (f"Bearer {TOKEN}", f"Basic {password}"):
            code, _ = await page.get("/api/status", {"Authorization": given, "Host": "any"})
            assert code == 200
        for path in ("/metrics", "/healthz", "/readyz"):
            async with page.session.get(f"{page.url}{path}") as response:
                assert response.status == 200


async def test_elsewhere_without_a_token_there_is_no_page(tmp_path: Path) -> None:
    settings = lake_settings(tmp_path, more={"broker.admin_host": "0.0.0.0"})
    async with served_page(settings) as page:
        code, found = await page.get("/api/status")
        assert code == 403
        assert "set broker.admin_token" in found["error"]
        assert (await page.get("/readyz"))[0] == 200
