"""What commands ask of the metadata store, opened for the question and closed behind it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.settings import Settings

T = TypeVar("T")


def ask(settings: Settings, question: Callable[[Metadata], Awaitable[T]]) -> T:
    """The answer of the store that the settings name."""

    async def asked() -> T:
        metadata = await open_metadata(settings.metadata.url, clock=SystemClock())
        try:
            return await question(metadata)
        finally:
            await metadata.close()

    return asyncio.run(asked())
