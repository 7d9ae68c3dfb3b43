"""A Parquet file of one partition that is written row group by row group.

What always holds: rows are in offset order; a name is used once, ever; on a local disk the file is
synced before anybody is told of it; a file without rows is never made.
"""

from types import TracebackType
from typing import Final, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, OutputStream

from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.table.cells import RowSums
from lakestream_spark.table.columns import ARROW_SCHEMA, OFFSET, TIMESTAMP, VALUE
from lakestream_spark.table.durable import sync
from lakestream_spark.table.files import DataFile, FileStatistics
from lakestream_spark.table.layout import TableLayout

ROW_GROUP_ROWS: Final = 64 * 1024
_COMPRESSION: Final = "zstd"
# Measured on JSON events: higher levels take more CPU and give larger files up to level 4.
_COMPRESSION_LEVEL: Final = 1
# Lengths apart from bytes: what is compressed is text without binary between.
_ENCODINGS: Final = {
    OFFSET: "DELTA_BINARY_PACKED",
    TIMESTAMP: "DELTA_BINARY_PACKED",
    VALUE: "DELTA_LENGTH_BYTE_ARRAY",
}


class PartitionFile:
    """Takes rows until it is closed; use as `with`."""

    def __init__(self, io: FileIO, layout: TableLayout, place: PlannedRange, attempt: UUID) -> None:
        self._io = io
        self._place = place
        self._properties = layout.properties()
        self._path = layout.data_file(place.partition, place.first, place.next, attempt)
        self._stream: OutputStream | None = None
        self._writer: pq.ParquetWriter | None = None
        self._sums = RowSums(place)

    def write(self, rows: pa.Table) -> None:
        """Append rows, which follow those before in offset order."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._stream = self._io.new_output(self._path).create(overwrite=False)
            self._writer = pq.ParquetWriter(
                self._stream,
                ARROW_SCHEMA,
                compression=_COMPRESSION,
                compression_level=_COMPRESSION_LEVEL,
                store_schema=False,
                use_dictionary=False,
                column_encoding=_ENCODINGS,
            )
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self._sums.add(rows)

    def finish(self) -> DataFile | None:
        """The whole file, durable; None when there were no rows."""
        if self._writer is None or self._stream is None:
            return None
        self._writer.close()
        footer = self._writer.writer.metadata
        size = self._stream.tell()
        self._stream.close()
        self._writer = self._stream = None
        sync([self._path])
        return DataFile(
            path=self._path,
            partition=self._place.partition,
            first=self._place.first,
            next=self._place.next,
            rows=self._sums.rows,
            size=size,
            statistics=FileStatistics.of_written(footer, self._properties),
            sums=self._sums.sums(),
            holes=self._sums.holes(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """What was not finished is nobody's: the upkeep collects it."""
        if self._stream is not None:
            self._stream.close()
