"""`lakestream sql` where everything is in S3 and PostgreSQL, with no extension of DuckDB's."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from lakestream_spark.app import running_broker
from lakestream_spark.settings.storage import catalog_spec
from tests.support.delete_files import delete_positions
from tests.support.kafka import Sent, produce
from tests.support.lake_place import Place, on_s3
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import S3Server, s3_server
from tests.support.shell import Shell
from tests.support.sparkless import SparklessCompaction

__all__ = ["postgres_server", "postgres_url", "s3_server"]

pytestmark = [pytest.mark.s3, pytest.mark.postgres]

QUERY = "SELECT count(*) AS rows, min(__offset) AS first, max(__offset) AS last FROM orders"


def commit(place: Place) -> None:
    """Everything into the table; then another engine deletes the first row of a file."""
    with closing(SparklessCompaction(place)) as compaction:
        compaction.run_until_drained()
    with closing(catalog_spec(place.settings).open()) as catalog:
        table = catalog.load_table(("streams", "orders"))
    first = min(task.file.file_path for task in table.scan().plan_files())
    delete_positions(table, first, [0])


async def test_table_and_tail_in_a_bucket_are_one(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> None:
    place = on_s3(tmp_path, s3_server, postgres_url)
    shell = Shell(place.flags)
    async with running_broker(place.settings) as lake:
        await lake.metadata.topics.create("orders")
        sent = [Sent(b"k", b"v%d" % n) for n in range(50)]
        await asyncio.to_thread(produce, lake.bootstrap, "orders", sent)
        await asyncio.to_thread(commit, place)
        await asyncio.to_thread(produce, lake.bootstrap, "orders", sent[:5])
        answer = await asyncio.to_thread(shell.json, "sql", QUERY)
    assert answer["rows"] == [{"rows": 54, "first": 1, "last": 54}]
