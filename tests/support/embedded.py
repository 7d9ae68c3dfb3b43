"""A whole lakestream under one folder, its ingress in the test's own event loop."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from unittest.mock import patch

from lakestream_spark import app
from lakestream_spark.groups import GroupLimits
from lakestream_spark.table.iceberg import CatalogSpec
from tests.support.lake_place import lake_settings as lake_settings


def metadata_url(folder: Path) -> str:
    return lake_settings(folder).metadata.url


def catalog_spec(folder: Path) -> CatalogSpec:
    return app.catalog_spec(lake_settings(folder))


@asynccontextmanager
async def embedded_lake(
    folder: Path, *, flush_ms: int = 5, broker_id: int = 1, more: Mapping[str, str] | None = None
) -> AsyncIterator[app.RunningBroker]:
    """Everything started; stopped and closed when the block ends."""
    settings = lake_settings(folder, flush_ms=flush_ms, broker_id=broker_id, more=more)
    async with app.running_broker(settings) as broker:
        yield broker


@asynccontextmanager
async def lake_with_groups(
    folder: Path, *, limits: GroupLimits, flush_ms: int = 5, broker_id: int = 1
) -> AsyncIterator[app.RunningBroker]:
    """`embedded_lake` whose group coordinator has limits of the test's own."""
    lake = embedded_lake(folder, flush_ms=flush_ms, broker_id=broker_id)
    async with AsyncExitStack() as stack:
        # Some limits are no settings: tests want to wait for less than any user would.
        with patch.object(app, "group_limits", lambda _: limits):
            broker = await stack.enter_async_context(lake)
        yield broker
