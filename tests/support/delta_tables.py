"""Stream tables that grow by appends, and what each reader finds in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import Table

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table import delta_log
from lakestream_spark.table.append import TableAppend, TableState, Verdict
from lakestream_spark.table.columns import OFFSET, PARTITION, VALUE
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog
from lakestream_spark.table.layout import TableLayout
from tests.support import duckdb_extensions
from tests.support.tables import rows, write_file

Offsets = list[tuple[int, int]]
"""Partition and offset of each row, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingTable:
    """A topic's table without a topic: appends go straight through the catalog."""

    spec: CatalogSpec
    catalog: StreamCatalog
    layout: TableLayout

    @classmethod
    def new(cls, spec: CatalogSpec, name: str = "orders") -> "GrowingTable":
        catalog = StreamCatalog.open(spec)
        return cls(spec=spec, catalog=catalog, layout=catalog.layout(TopicId(uuid4()), name))

    @property
    def topic_id(self) -> TopicId:
        return self.layout.topic_id

    @property
    def table(self) -> Table:
        return self.catalog.load_or_create(self.layout)

    @property
    def log(self) -> DeltaTable:
        log = delta_log.open_log(self.table)
        assert log is not None
        return log

    def append(self, *partitions: int, values: Sequence[bytes] = (b"a", b"b")) -> list[DataFile]:
        """One commit with a file of the values in each of the partitions (0 if none is named)."""
        ends = TableState.of(self.table).ends
        own = partitions or (0,)
        files = [self.write(partition, ends.get(partition, 0), values) for partition in own]
        verdict = self.catalog.append(
            self.layout,
            TableAppend(
                commit_id=uuid4(),
                starts={file.partition: file.first for file in files},
                ends={file.partition: file.next for file in files},
                files=files,
            ),
        )
        assert verdict is Verdict.APPLY
        return files

    def write(self, partition: int, first: int, values: Sequence[bytes]) -> DataFile:
        place = PlannedRange(partition, first, first + len(values))
        io = self.spec.file_io()
        return write_file(io, self.layout, place, rows(first, values))

    @property
    def topic(self) -> Topic:
        """Whose table it is, as a broker knows it."""
        layout = self.layout
        return Topic(id=layout.topic_id, name=layout.topic_name, partitions=1, created_ms=0)

    def close(self) -> None:
        self.catalog.close()


def in_iceberg(table: Table) -> Offsets:
    return pairs(table.scan(selected_fields=(PARTITION, OFFSET)).to_arrow())


def in_delta(log: DeltaTable) -> Offsets:
    return pairs(log.to_pyarrow_table(columns=[PARTITION, OFFSET, VALUE]))


def in_duckdb(log: DeltaTable) -> Offsets:
    """Through DuckDB's Delta extension."""
    with duckdb.connect() as connection:
        duckdb_extensions.load(connection, "delta")
        query = f"SELECT {PARTITION}, {OFFSET} FROM delta_scan('{log.table_uri}')"
        return sorted(connection.execute(query).fetchall())


def pairs(table: pa.Table) -> Offsets:
    return sorted(zip(table[PARTITION].to_pylist(), table[OFFSET].to_pylist(), strict=True))


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}
