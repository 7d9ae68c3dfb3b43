"""What a Spark task does: WAL bytes -> checked batches -> rows -> one Parquet file per slice.

Runs in Spark's Python workers. What always holds: every slice ends in an outcome, whatever happens
to it; a task that is repeated or run twice writes other files with names of their own, and the
driver commits those it was told about.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from lakestream_spark.core.errors import Corrupt, Transient
from lakestream_spark.kafka.batch import STAMP_BYTES, stamp, walk
from lakestream_spark.metadata.tables import Quarantined
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.spark.decoded import rows_of
from lakestream_spark.spark.outcome import Kind, Outcome
from lakestream_spark.spark.slices import Slice
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.durable import sync
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.partition_file import PartitionFile
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.fetcher import ExtentFetcher, SegmentGone
from lakestream_spark.wal.ports import ExtentLocation

_ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
"""WAL bytes that are decoded at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """The function that Spark maps over slices; stores are by profile."""

    stores: Mapping[str, StoreSpec]
    catalog: CatalogSpec

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            slices = [Slice.from_json(text) for text in batch.column("slice").to_pylist()]
            fetched = asyncio.run(self._fetch(slices))
            for piece, chunks in zip(slices, fetched, strict=True):
                yield self._move(piece, chunks).to_arrow()

    async def _fetch(self, slices: Sequence[Slice]) -> list[list[memoryview] | BaseException]:
        """The bytes of all slices, with one request for each segment."""
        stores = {profile: spec.open() for profile, spec in self.stores.items()}
        fetcher = ExtentFetcher(stores, WalCache(0))
        return await asyncio.gather(
            *(fetcher.fetch(piece.extents) for piece in slices), return_exceptions=True
        )

    def _move(self, piece: Slice, chunks: list[memoryview] | BaseException) -> Outcome:
        try:
            if isinstance(chunks, BaseException):
                raise chunks
            return self._write(piece, chunks)
        except SegmentGone as gone:
            return _ended(piece, Kind.GONE, f"WAL segment {gone.extent.segment_id} is not there")
        except Corrupt as error:
            return _ended(piece, Kind.CORRUPT, str(error))
        except (Transient, OSError) as error:
            return _ended(piece, Kind.FAILED, str(error))

    def _write(self, piece: Slice, chunks: Sequence[memoryview]) -> Outcome:
        layout = TableLayout(
            warehouse=self.catalog.warehouse, topic_id=piece.topic_id, topic_name=piece.topic_name
        )
        io, attempt = self.catalog.file_io(), uuid4()
        aside: list[Quarantined] = []
        with PartitionFile(io, layout, piece.range, attempt) as file:
            for batches in _portions(zip(piece.extents, chunks, strict=True)):
                decoded = rows_of(piece.range.partition, batches)
                file.write(_within(decoded.rows, piece))
                for refused in decoded.refused:
                    batch = batches[refused.position]
                    aside.append(_set_aside(io, layout, piece, batch, refused.reason, attempt))
            written = file.finish()
        return Outcome(
            topic_id=piece.topic_id,
            plan=piece.plan,
            range=piece.range,
            kind=Kind.WRITTEN,
            wal_bytes=piece.bytes,
            file=written,
            quarantined=tuple(aside),
        )


def _ended(piece: Slice, kind: Kind, sentence: str) -> Outcome:
    return Outcome(
        topic_id=piece.topic_id, plan=piece.plan, range=piece.range, kind=kind, sentence=sentence
    )


def _portions(extents: Iterable[tuple[ExtentLocation, memoryview]]) -> Iterator[list[bytes]]:
    """Whole batches with their offsets stamped, about a row group of them at a time."""
    held: list[bytes] = []
    size = 0
    for extent, chunk in extents:
        base = extent.base_offset
        for position, header in walk(chunk, where=str(extent.segment_id)):
            body = chunk[position + STAMP_BYTES : position + header.size]
            held.append(b"".join((stamp(base, header.length), body)))
            base += header.offsets
            size += header.size
            if size >= _ROW_GROUP_BYTES:
                yield held
                held, size = [], 0
    if held:
        yield held


def _within(rows: pa.Table, piece: Slice) -> pa.Table:
    """The rows of the slice alone: its first and last extent may reach beyond it."""
    planned, extents = piece.range, piece.extents
    if extents[0].base_offset >= planned.first and extents[-1].next_offset <= planned.next:
        return rows
    offsets = rows[OFFSET]
    inside = pc.and_(pc.greater_equal(offsets, planned.first), pc.less(offsets, planned.next))
    return rows.filter(inside)


def _set_aside(
    io: FileIO, layout: TableLayout, piece: Slice, batch: bytes, reason: str, attempt: UUID
) -> Quarantined:
    """Keep the bytes of a batch that cannot become rows."""
    ((_, header),) = walk(memoryview(batch), where="quarantine")
    first = header.base_offset
    path = layout.quarantined_batch(piece.range.partition, first, attempt)
    with io.new_output(path).create(overwrite=False) as stream:
        stream.write(batch)
    sync([path])
    following = first + header.offsets
    return Quarantined(piece.range.partition, first, following, path, reason)
