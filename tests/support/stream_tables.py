"""A stream's table without broker, metadata store and Spark: appends, and what is in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow as pa
from pyiceberg.table import Table

from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.append import TableAppend, TableState, Verdict
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.rows import to_arrow
from tests.support.tables import TableFiles, rows


def append_of(*files: DataFile, commit_id: UUID | None = None) -> TableAppend:
    """The commit that moves the ends over the files of distinct partitions."""
    return TableAppend(
        commit_id=commit_id or uuid4(),
        starts={file.partition: file.first for file in files},
        ends={file.partition: file.next for file in files},
        files=files,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTable:
    """The table of one topic."""

    tables: StreamCatalog
    files: TableFiles

    @classmethod
    def new(cls, folder: Path, tables: StreamCatalog, topic: str) -> "StreamTable":
        layout = tables.layout(TopicId(uuid4()), topic)
        return cls(tables=tables, files=TableFiles(folder=folder, layout=layout))

    @property
    def name(self) -> str:
        """As Spark calls it."""
        return ".".join(("lake", *self.files.layout.identifier))

    def load(self) -> Table:
        table = self.tables.load(self.files.layout)
        assert table is not None
        return table

    def append(self, count: int, *, partition: int = 0) -> Verdict:
        """The next `count` offsets as one file and one commit; each value is its offset."""
        return self.tables.append(self.files.layout, self.next_append(count, partition=partition))

    def next_append(self, count: int, *, partition: int = 0) -> TableAppend:
        table = self.tables.load(self.files.layout)
        first = 0 if table is None else TableState.of(table).ends.get(partition, 0)
        values = [str(first + i).encode() for i in range(count)]
        return append_of(self.files.write(rows(first, values), partition=partition))

    def offsets(self, partition: int = 0) -> list[int]:
        """Of every row of a partition, as often as it is there."""
        scan = self.load().scan(f"{PARTITION} = {partition}", selected_fields=(OFFSET,))
        return sorted(scan.to_arrow()[OFFSET].to_pylist())


def foreign_rows(table: Table, offsets: Sequence[int], *, partition: int = 0) -> pa.Table:
    """Rows with these offsets, as a foreign engine would make them."""
    made = [row for offset in offsets for row in rows(offset, [b"foreign"])]
    return to_arrow(partition, made).cast(table.schema().as_arrow())
