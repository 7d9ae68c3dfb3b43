"""Writes the rows of one partition as a Parquet file of the table, and says what it wrote."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.table.columns import ARROW_SCHEMA
from lakestream_spark.table.files import DataFile, FileStatistics
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.rows import Row, to_arrow

_ROW_GROUP_ROWS: Final = 64 * 1024


def write_file(
    io: FileIO, layout: TableLayout, place: PlannedRange, rows: Sequence[Row], *, attempt: UUID
) -> DataFile:
    """One new file with the rows, which are in offset order; no name is ever written twice."""
    path = layout.data_file(place.partition, place.first, place.next, attempt)
    with io.new_output(path).create(overwrite=False) as stream:
        with pq.ParquetWriter(
            stream, ARROW_SCHEMA, compression="zstd", store_schema=False
        ) as writer:
            writer.write_table(to_arrow(place.partition, rows), row_group_size=_ROW_GROUP_ROWS)
        footer = writer.writer.metadata
        size = stream.tell()
    return DataFile(
        path=path,
        partition=place.partition,
        first=place.first,
        next=place.next,
        rows=len(rows),
        size=size,
        statistics=FileStatistics.of_written(footer, layout.properties()),
    )
