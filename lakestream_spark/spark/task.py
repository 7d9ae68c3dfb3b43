"""What a Spark task does: WAL bytes -> checked batches -> rows -> one Parquet file per slice.

Runs in Spark's Python workers. What always holds: every slice ends in an outcome, whatever happens
to it; a task that is repeated or run twice writes other files with names of their own, and the
driver commits those it was told about.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from lakestream_spark.core.errors import Corrupt, Misconfigured
from lakestream_spark.kafka.arrow.decode import RefusedBatch
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.metadata.tables import Quarantined
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.spark.outcome import Kind, Outcome
from lakestream_spark.spark.slices import Slice
from lakestream_spark.spark.unforeseen import told
from lakestream_spark.table.arrow_rows import rows_of
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.durable import sync
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.partition_file import PartitionFile
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.fetcher import ExtentFetcher, SegmentGone


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """The function that Spark maps over slices; stores are by profile."""

    stores: Mapping[str, StoreSpec]
    catalog: CatalogSpec

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            slices = [Slice.from_json(text) for text in batch.column("slice").to_pylist()]
            for piece, chunks in zip(slices, self._fetched(slices), strict=True):
                yield self._move(piece, chunks).to_arrow()

    def _fetched(self, slices: Sequence[Slice]) -> Sequence[list[memoryview] | BaseException]:
        try:
            return asyncio.run(self._fetch(slices))
        except Exception as error:
            return [error] * len(slices)

    async def _fetch(self, slices: Sequence[Slice]) -> list[list[memoryview] | BaseException]:
        """The bytes of all slices, with one request for each segment."""
        stores: dict[str, ObjectStore] = {}
        closed: dict[str, Exception] = {}
        for profile in sorted({extent.profile for piece in slices for extent in piece.extents}):
            try:
                stores[profile] = self._open(profile)
            except Exception as error:
                closed[profile] = error  # Slices in the other stores go on.
        fetcher = ExtentFetcher(stores, WalCache(0))

        async def one(piece: Slice) -> list[memoryview]:
            for extent in piece.extents:
                if extent.profile in closed:
                    raise closed[extent.profile]
            return await fetcher.fetch(piece.extents)

        return await asyncio.gather(*(one(piece) for piece in slices), return_exceptions=True)

    def _open(self, profile: str) -> ObjectStore:
        if profile not in self.stores:
            raise Misconfigured("the job knows no WAL store of this profile", profile=profile)
        return self.stores[profile].open()

    def _move(self, piece: Slice, chunks: list[memoryview] | BaseException) -> Outcome:
        try:
            if isinstance(chunks, BaseException):
                raise chunks
            return self._write(piece, chunks)
        except SegmentGone as gone:
            missing = str(gone.extent.segment_id)
            ended = _ended(piece, Kind.GONE, f"WAL segment {missing} is not there")
            return replace(ended, missing=missing)
        except Corrupt as error:
            return _ended(piece, Kind.CORRUPT, str(error))
        except Exception as error:
            # Whatever it is: an error here would end the batch, and with it every other topic's.
            return _ended(piece, Kind.FAILED, told(error))

    def _write(self, piece: Slice, chunks: Sequence[memoryview]) -> Outcome:
        layout = TableLayout(
            warehouse=self.catalog.warehouse, topic_id=piece.topic_id, topic_name=piece.topic_name
        )
        io, attempt = self.catalog.file_io(), uuid4()
        aside: list[Quarantined] = []
        with PartitionFile(io, layout, piece.range, attempt) as file:
            given = [
                Chunk(chunk, extent.base_offset)
                for extent, chunk in zip(piece.extents, chunks, strict=True)
            ]
            for decoded in rows_of(piece.range.partition, given):
                file.write(_within(decoded.table, piece))
                aside += (
                    _set_aside(io, layout, piece, refused, attempt) for refused in decoded.refused
                )
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


def _within(rows: pa.Table, piece: Slice) -> pa.Table:
    """The rows of the slice alone: its first and last extent may reach beyond it."""
    planned, extents = piece.range, piece.extents
    if extents[0].base_offset >= planned.first and extents[-1].next_offset <= planned.next:
        return rows
    offsets = rows[OFFSET]
    inside = pc.and_(pc.greater_equal(offsets, planned.first), pc.less(offsets, planned.next))
    return rows.filter(inside)


def _set_aside(
    io: FileIO, layout: TableLayout, piece: Slice, refused: RefusedBatch, attempt: UUID
) -> Quarantined:
    """Keep the bytes of a batch that cannot become rows."""
    partition = piece.range.partition
    path = layout.quarantined_batch(partition, refused.first, attempt)
    with io.new_output(path).create(overwrite=False) as stream:
        stream.write(bytes(refused.data))
    sync([path])
    return Quarantined(partition, refused.first, refused.next, path, str(refused.error))
