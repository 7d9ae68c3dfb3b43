"""A PostgreSQL that hangs, in every way it can, is an outage like any other."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from random import Random

import asyncpg
import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Transient, Unavailable
from lakestream_spark.core.retry import Backoff
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.table import sql
from lakestream_spark.table.commit import TableCommitter, lease_name
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog
from tests.support.postgres import postgres_server, postgres_url
from tests.support.postgres_proxy import PostgresProxy
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles, acknowledge, rows

__all__ = ["postgres_server", "postgres_url"]

VALUES = [b"a", b"b", b"c"]
pytestmark = pytest.mark.postgres


def spec_of(folder: Path, url: str) -> CatalogSpec:
    uri = f"postgresql+psycopg2://{url.partition('://')[2]}"
    properties = {"type": "sql", "uri": uri}
    return CatalogSpec(name="lake", warehouse=f"file://{folder}/warehouse", properties=properties)


@contextmanager
def impatient() -> Iterator[None]:
    """Only while something hangs: what works may be slow on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "ANSWER_WITHIN_S", 1.0)
        patch.setattr(sql, "CONNECT_WITHIN_S", 2)
        yield


@pytest.fixture
def tables(tmp_path: Path, postgres_url: str) -> Iterator[StreamCatalog]:
    opened = StreamCatalog.open(spec_of(tmp_path, postgres_url))
    yield opened
    opened.close()


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """Nobody else reads or changes the list of tables meanwhile."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE iceberg_tables IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def test_a_commit_that_meets_a_lock_fails_and_succeeds_when_the_lock_is_gone(
    tmp_path: Path, metadata: Metadata, tables: StreamCatalog, postgres_url: str
) -> None:
    topic = await metadata.topics.create("orders")
    await acknowledge(metadata, topic, VALUES)
    files = TableFiles(folder=tmp_path, layout=tables.layout(topic.id, topic.name))
    lease = await metadata.leases.try_acquire(lease_name(topic.id), "committer", 60.0)
    assert lease is not None
    written = [files.write(rows(0, VALUES))]
    ranges = [PlannedRange(0, 0, len(VALUES))]

    def committer(total_s: float) -> TableCommitter:
        backoff = Backoff(first_s=0.05, cap_s=0.1, total_s=total_s)
        return TableCommitter(
            metadata.tables, tables, clock=SystemClock(), random=Random(1), backoff=backoff
        )

    async with locked(postgres_url):
        with impatient(), pytest.raises(Transient):
            await committer(0.5).commit(lease, topic, 1, ranges, written)
        assert (await metadata.tables.ends(topic.id))[0].table_end == 0
        with impatient():
            patient = asyncio.create_task(committer(600.0).recover(lease, topic))
            done, _ = await asyncio.wait([patient], timeout=1.5)
        assert not done
    await patient
    assert (await metadata.tables.ends(topic.id))[0].table_end == len(VALUES)
    with closing(StreamCatalog.open(spec_of(tmp_path, postgres_url))) as others:
        assert StreamTable(tables=others, files=files).offsets() == [0, 1, 2]


async def test_a_server_that_falls_silent_in_the_middle_is_cut_off(
    tmp_path: Path, postgres_url: str
) -> None:
    async with PostgresProxy(postgres_url) as proxy:
        tables = await asyncio.to_thread(StreamCatalog.open, spec_of(tmp_path, proxy.url))
        stream = StreamTable.new(tmp_path, tables, "orders")
        await asyncio.to_thread(stream.append, 2)
        proxy.falls_silent()
        with impatient(), pytest.raises(Unavailable, match="does not answer"):
            await asyncio.to_thread(tables.load, stream.files.layout)
        proxy.speaks_again()
        await asyncio.to_thread(stream.append, 1)
        assert await asyncio.to_thread(stream.offsets) == [0, 1, 2]
        await asyncio.to_thread(tables.close)


def test_a_server_that_accepts_and_says_nothing_is_an_outage(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        spec = spec_of(tmp_path, f"postgresql://me@{address}/lake?sslmode=disable")
        with impatient(), pytest.raises(Unavailable, match="does not answer"):
            StreamCatalog.open(spec)
