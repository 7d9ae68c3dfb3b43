from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakestream_spark.app import RunningBroker
from lakestream_spark.groups import GroupLimits
from tests.support.embedded import lake_with_groups

SMALL = GroupLimits(min_session_timeout_ms=100, max_group_id_bytes=100)


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with lake_with_groups(tmp_path, limits=SMALL) as running:
        yield running
