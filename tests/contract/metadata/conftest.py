"""Every test here runs on an SQLite file, on SQLite in memory and on a real PostgreSQL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.wal.segment import WriterIdentity
from tests.simulation.audit import audit
from tests.support.clock import SimulatedClock
from tests.support.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

FILE, MEMORY, POSTGRES = "sqlite-file", "sqlite-memory", "postgres"
OPEN = Callable[[], Awaitable[Metadata]]


@pytest.fixture(params=[FILE, MEMORY, pytest.param(POSTGRES, marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[FILE, pytest.param(POSTGRES, marks=pytest.mark.postgres)])
def shared_store(request: pytest.FixtureRequest) -> str:
    """A store that several processes can open."""
    return str(request.param)


def url_of(store: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if store == POSTGRES:
        return str(request.getfixturevalue("postgres_url"))
    return "sqlite://" if store == MEMORY else f"sqlite:///{folder}/metadata.db"


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def url(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(store, request, tmp_path)


@pytest.fixture
async def metadata(url: str, clock: SimulatedClock) -> AsyncIterator[Metadata]:
    """A fresh store; after the test its tables are audited."""
    opened = await open_metadata(url, clock=clock)
    yield opened
    await audit(opened.database)
    await opened.close()


@pytest.fixture
def shared_url(shared_store: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(shared_store, request, tmp_path)


@pytest.fixture
async def open_again(shared_url: str, clock: SimulatedClock) -> AsyncIterator[OPEN]:
    """Opens the same store as another broker would; all are audited and closed at the end."""
    opened: list[Metadata] = []

    async def open_one() -> Metadata:
        opened.append(await open_metadata(shared_url, clock=clock))
        return opened[-1]

    yield open_one
    for metadata in opened:
        await audit(metadata.database)
        await metadata.close()


@pytest.fixture
async def writer(metadata: Metadata) -> WriterIdentity:
    return await metadata.writers.register(BrokerId(1), "cost")


@pytest.fixture
async def partition(metadata: Metadata) -> TopicPartition:
    topic = await metadata.topics.create("orders", partitions=3)
    return TopicPartition(topic.id, 0)
