"""A store in memory whose time stands still, for tests that ask for one."""

from collections.abc import AsyncIterator

import pytest

from lakestream_spark.metadata import Metadata, open_metadata
from tests.support.clock import SimulatedClock


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(wall_ms=0)


@pytest.fixture
async def metadata(clock: SimulatedClock) -> AsyncIterator[Metadata]:
    opened = await open_metadata("sqlite://", clock=clock)
    yield opened
    await opened.close()
