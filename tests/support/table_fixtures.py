"""Fixtures of a topic and its table on real SQLite stores; a conftest imports them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.tables import TableFiles


@pytest.fixture
async def metadata(tmp_path: Path) -> AsyncIterator[Metadata]:
    opened = await open_metadata(metadata_url(tmp_path), clock=SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[StreamCatalog]:
    catalog = StreamCatalog.open(catalog_spec(tmp_path))
    yield catalog
    catalog.close()


@pytest.fixture
async def topic(metadata: Metadata) -> Topic:
    return await metadata.topics.create("orders")


@pytest.fixture
def files(tmp_path: Path, tables: StreamCatalog, topic: Topic) -> TableFiles:
    return TableFiles.of(tmp_path, tables, topic)
