"""What a Spark task does: WAL bytes -> checked batches -> rows -> one Parquet file per slice.

Runs in Spark's Python workers. A task that is repeated or run twice writes another file with a
name of its own; the driver commits the one it was told about.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa

from lakestream_spark.kafka.batch import APPEND_TIME_FLAG, walk
from lakestream_spark.kafka.records import decode_records
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.spark.slices import Slice
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.iceberg import CatalogSpec
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.parquet import write_file
from lakestream_spark.table.rows import Row
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.fetcher import ExtentFetcher

RESULT_SCHEMA: Final = (
    "topic_id string, plan bigint, partition int, first bigint, next bigint, file string"
)
_RESULT: Final = pa.schema(
    [
        ("topic_id", pa.string()),
        ("plan", pa.int64()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("next", pa.int64()),
        ("file", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """The function that Spark maps over slices; stores are by profile."""

    stores: Mapping[str, StoreSpec]
    catalog: CatalogSpec

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("slice").to_pylist():
                yield self._describe(Slice.from_json(text))

    def _describe(self, piece: Slice) -> pa.RecordBatch:
        file = self._write(piece)
        row = [str(piece.topic_id), piece.plan, *piece.range, file.to_json()]
        return pa.RecordBatch.from_pylist([dict(zip(_RESULT.names, row, strict=True))], _RESULT)

    def _write(self, piece: Slice) -> DataFile:
        layout = TableLayout(
            warehouse=self.catalog.warehouse, topic_id=piece.topic_id, topic_name=piece.topic_name
        )
        rows = asyncio.run(self._read(piece))
        return write_file(self.catalog.file_io(), layout, piece.range, rows, attempt=uuid4())

    async def _read(self, piece: Slice) -> list[Row]:
        stores = {profile: spec.open() for profile, spec in self.stores.items()}
        chunks = await ExtentFetcher(stores, WalCache(0)).fetch(piece.extents)
        rows: list[Row] = []
        for extent, chunk in zip(piece.extents, chunks, strict=True):
            rows += _rows(chunk, extent.base_offset)
        return [row for row in rows if piece.range.first <= row.record.offset < piece.range.next]


def _rows(chunk: memoryview, base_offset: int) -> Iterator[Row]:
    """The records of an extent, whose batches have consecutive offsets from its base."""
    for position, header in walk(chunk, where="WAL"):
        stamped = header._replace(base_offset=base_offset)
        append_time = bool(header.attributes & APPEND_TIME_FLAG)
        for record in decode_records(chunk[position : position + header.size], stamped):
            yield Row(record, append_time)
        base_offset += header.offsets
