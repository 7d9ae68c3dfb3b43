"""History that is loaded when it is first read.

pyiceberg and Arrow would be about half of a broker's start and of its memory, and a broker whose
topics have no tables yet never needs them. What always holds: they are loaded once, in a thread; a
catalog that cannot be opened costs the reads that wait for it, and the next one tries again.
"""

import asyncio
from typing import TYPE_CHECKING

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.spec import CatalogSpec

if TYPE_CHECKING:
    from lakestream_spark.history.cursor import History
    from lakestream_spark.table.iceberg import StreamCatalog


class HistoryOnDemand:
    """Stands for `History` and opens it, with its catalog, at the first call."""

    def __init__(self, spec: CatalogSpec) -> None:
        self._spec = spec
        self._catalog: StreamCatalog | None = None
        self._opening: asyncio.Task[History] | None = None

    async def read(self, topic: Topic, partition: int, offset: int, max_bytes: int) -> bytes:
        return await (await self._history()).read(topic, partition, offset, max_bytes)

    async def offset_for_timestamp(
        self, topic: Topic, partition: int, timestamp_ms: int, from_offset: int
    ) -> TimestampedOffset | None:
        history = await self._history()
        return await history.offset_for_timestamp(topic, partition, timestamp_ms, from_offset)

    async def offset_of_max_timestamp(
        self, topic: Topic, partition: int, from_offset: int
    ) -> TimestampedOffset | None:
        history = await self._history()
        return await history.offset_of_max_timestamp(topic, partition, from_offset)

    async def close(self) -> None:
        """Let go of the catalog, if it was opened."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._catalog is not None:
            self._catalog.close()

    async def _history(self) -> "History":
        if self._opening is None:
            self._opening = asyncio.create_task(asyncio.to_thread(self._open), name="open-history")
        opening = self._opening
        try:
            # One reader that gives up must not take the others' history away.
            return await asyncio.shield(opening)
        except Exception as error:
            if self._opening is opening:
                self._opening = None
            raise Unavailable(f"the catalog of the tables cannot be opened: {error}") from error

    def _open(self) -> "History":
        # Here and not above: see the head of this module.
        from lakestream_spark.history.cursor import History
        from lakestream_spark.table.iceberg import StreamCatalog

        self._catalog = StreamCatalog.open(self._spec)
        return History(self._catalog)
