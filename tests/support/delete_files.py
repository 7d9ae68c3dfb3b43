"""Delete files as engines that delete merge-on-read write them; pyiceberg itself writes none."""

from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AddDeletes(_FastAppendFiles):
    """A snapshot with one delete file more."""

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        with _DeletesWriter(
            metadata.spec(),
            self.schema(),
            self.new_manifest_output(),
            self._snapshot_id,
            self._compression,
        ) as writer:
            for file in self._added_data_files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        data_file=file,
                    )
                )
        return [*self._existing_manifests(), writer.to_manifest_file()]


def delete_positions(table: Table, path: str, positions: list[int]) -> None:
    """A position delete of rows of one data file of partition 0."""
    schema = pa.schema(
        [_column("file_path", pa.string(), 2147483546), _column("pos", pa.int64(), 2147483545)]
    )
    columns = pa.table([[path] * len(positions), positions], schema=schema)
    _add(table, columns, DataFileContent.POSITION_DELETES, None)


def delete_by_equality(table: Table, offset: int) -> None:
    """An equality delete of one offset of partition 0."""
    columns = pa.table([[offset]], schema=pa.schema([_column("__offset", pa.int64(), 2)]))
    _add(table, columns, DataFileContent.EQUALITY_DELETES, [2])


def _column(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(field_id)})


def _add(
    table: Table, columns: pa.Table, content: DataFileContent, equality_ids: list[int] | None
) -> None:
    path = f"{table.location()}/_data/{uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(columns, stream)
        size = stream.tell()
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(0),
        record_count=len(columns),
        file_size_in_bytes=size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=None,
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=equality_ids,
        key_metadata=None,
    )
    with table.transaction() as transaction:
        producer = _AddDeletes(Operation.DELETE, transaction, table.io)
        producer.append_data_file(file)
        producer.commit()
