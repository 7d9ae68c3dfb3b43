"""A write that is tried and undone."""

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.database import Execute, Fetch, Rows, Transaction
from lakestream_spark.metadata.write_check import check_writable


def _leases() -> Transaction[Rows]:
    return (yield Fetch("SELECT name FROM leases"))


def _read_only() -> Transaction[None]:
    yield Execute("PRAGMA query_only = 1")


async def test_a_write_that_is_tried_leaves_nothing_and_one_that_is_refused_is_told() -> None:
    metadata = await open_metadata("sqlite://", clock=SystemClock())
    try:
        await check_writable(metadata.database)
        assert await metadata.database.read(_leases()) == []
        await metadata.database.run(_read_only())
        with pytest.raises(LakestreamError, match="readonly database"):
            await check_writable(metadata.database)
    finally:
        await metadata.close()
