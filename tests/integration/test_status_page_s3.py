"""The status page of a broker on S3 and PostgreSQL."""

import asyncio
from pathlib import Path

import pytest

from tests.support.kafka import Sent, produce
from tests.support.lake_place import on_s3
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import NEEDS_S3, S3Server, s3_server
from tests.support.status_page import SOON_S, compacted, served_page

__all__ = ["postgres_server", "postgres_url", "s3_server"]
pytestmark = [*NEEDS_S3, pytest.mark.postgres, pytest.mark.long]


async def test_a_bucket_and_a_database_are_shown_as_a_folder_is(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> None:
    place = on_s3(tmp_path, s3_server, postgres_url)
    async with served_page(place.settings) as page:
        sent = [Sent(b"k%d" % n, b"v%d" % n) for n in range(6)]
        await asyncio.to_thread(produce, page.broker.bootstrap, "orders", sent[:4])
        await compacted(place)
        async with asyncio.timeout(SOON_S):
            while not (now := await page.topic("orders"))["records_per_s"] or not now["table"]:
                await asyncio.to_thread(produce, page.broker.bootstrap, "orders", sent[4:])
        assert now["table_end"] == 4
        assert now["lag_records"] == now["high_watermark"] - 4 > 0
        assert (now["table"]["files"], now["table"]["snapshots"]) == (1, 1)
        for offset, source in ((3, "table"), (4, "wal")):
            code, found = await page.get(f"/api/record?topic=orders&partition=0&offset={offset}")
            assert (code, found["source"], found["value"]["text"]) == (200, source, f"v{offset}")
        _, found = await page.get("/api/topic?topic=orders")
        assert found["table"]["newest_snapshots"][0]["rows"] == 4
