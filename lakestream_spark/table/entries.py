"""Our data files as entries of a manifest, by the table's current partition spec and sort order."""

from typing import Final

from pyiceberg.manifest import DataFile as ManifestDataFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.typedef import Record as PartitionRecord

from lakestream_spark.table.columns import SORT_ORDER
from lakestream_spark.table.files import DataFile

_NO_PARTITION: Final = PartitionRecord()


def manifest_entry(file: DataFile, table: Table) -> ManifestDataFile:
    """The entry of a file, for a table whose form was checked."""
    statistics = file.statistics
    return ManifestDataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=PartitionRecord(file.partition) if table.spec().fields else _NO_PARTITION,
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes=statistics.column_sizes,
        value_counts=statistics.value_counts,
        null_value_counts=statistics.null_value_counts,
        nan_value_counts={},
        lower_bounds={key: bytes.fromhex(b) for key, b in statistics.lower_bounds.items()},
        upper_bounds={key: bytes.fromhex(b) for key, b in statistics.upper_bounds.items()},
        split_offsets=list(statistics.split_offsets),
        sort_order_id=_sort_order_id(table),
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
    )


def _sort_order_id(table: Table) -> int:
    """Of the order our rows are in, which need not be the one others chose for the table."""
    for order_id, order in table.sort_orders().items():
        if order.fields == SORT_ORDER.fields:
            return order_id
    return UNSORTED_SORT_ORDER_ID
