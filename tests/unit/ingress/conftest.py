from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakestream_spark.app import RunningBroker
from tests.support.embedded import embedded_lake
from tests.support.wire import Wire


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path, flush_ms=50) as embedded:
        yield embedded


@pytest.fixture
async def wire(lake: RunningBroker) -> AsyncIterator[Wire]:
    connected = await Wire.connect(lake.address.port)
    yield connected
    await connected.close()
