"""Reads of a topic's table as a Kafka stream. Parquet is read in a thread, off the event loop."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.history.batches import encode_rows
from lakestream_spark.history.locate import locate
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.columns import OFFSET, PARTITION, TIMESTAMP
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.rows import from_arrow

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


class History:
    """The part of every topic that is in its table."""

    def __init__(self, catalog: StreamCatalog, *, codec: Codec = Codec.LZ4) -> None:
        self._catalog = catalog
        self._codec = codec

    async def read(self, topic: Topic, partition: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset` on, about `max_bytes` of them (at least one).

        Raises `Unavailable` when the table does not reach the offset yet.
        """
        return await asyncio.to_thread(self._read, topic, partition, offset, max_bytes)

    async def offset_for_timestamp(
        self, topic: Topic, partition: int, timestamp_ms: int, from_offset: int
    ) -> TimestampedOffset | None:
        """The first row from `from_offset` on whose time is not before `timestamp_ms`."""
        return await asyncio.to_thread(self._search, topic, partition, timestamp_ms, from_offset)

    async def offset_of_max_timestamp(
        self, topic: Topic, partition: int, from_offset: int
    ) -> TimestampedOffset | None:
        """The first row from `from_offset` on that has the newest time."""
        return await asyncio.to_thread(self._newest, topic, partition, from_offset)

    def _read(self, topic: Topic, partition: int, offset: int, max_bytes: int) -> bytes:
        table = self._table(topic)
        span = locate(table, partition, offset)
        rows = from_arrow(table.scan(span.filter).to_arrow())
        out = bytearray()
        for batch in encode_rows(rows, span, self._codec):
            if out and len(out) + len(batch) > max_bytes:
                break
            out += batch
        return bytes(out)

    def _search(
        self, topic: Topic, partition: int, timestamp_ms: int, from_offset: int
    ) -> TimestampedOffset | None:
        time = _EPOCH + timedelta(milliseconds=min(max(timestamp_ms, 0), _LAST_MS))
        rows = (
            self._table(topic)
            .scan(
                f"{PARTITION} = {partition} AND {OFFSET} >= {from_offset} "
                f"AND {TIMESTAMP} >= '{time.isoformat()}'",
                selected_fields=(OFFSET, TIMESTAMP),
            )
            .to_arrow()
        )
        if not rows:
            return None
        first = pc.index(rows[OFFSET], pc.min(rows[OFFSET])).as_py()
        micros = rows[TIMESTAMP].cast(pa.int64())[first].as_py()
        return TimestampedOffset(rows[OFFSET][first].as_py(), micros // 1000)

    def _newest(self, topic: Topic, partition: int, from_offset: int) -> TimestampedOffset | None:
        rows = (
            self._table(topic)
            .scan(
                f"{PARTITION} = {partition} AND {OFFSET} >= {from_offset}",
                selected_fields=(OFFSET, TIMESTAMP),
            )
            .to_arrow()
        )
        if not rows:
            return None
        micros = rows[TIMESTAMP].cast(pa.int64())
        newest = pc.max(micros)
        first = pc.min(rows[OFFSET].filter(pc.equal(micros, newest))).as_py()
        return TimestampedOffset(first, newest.as_py() // 1000)

    def _table(self, topic: Topic) -> Table:
        table = self._catalog.load_lawful(self._catalog.layout(topic.id, topic.name, topic.config))
        if table is None:
            raise Unavailable("the topic has no table yet", topic=topic.name)
        return table
