"""A table's rows in files of the test's own making, as another engine may leave them."""

from collections.abc import Sequence
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tests.support.local_rewriter import replace_files


def data_files(table: Table) -> list[DataFile]:
    return [task.file for task in table.scan().plan_files()]


def rewrite(table: Table, contents: Sequence[pa.Table], *, row_group_rows: int) -> list[str]:
    """Replace all files of the table by files with these rows; the paths of the new ones."""
    new = []
    for rows in contents:
        path = f"{table.properties['write.data.path']}/foreign-{uuid4().hex}.parquet"
        with table.io.new_output(path).create() as stream:
            pq.write_table(rows, stream, row_group_size=row_group_rows, store_schema=False)
        new.append(parquet_file_to_data_file(table.io, table.metadata, path))
    assert replace_files(table, data_files(table), new)
    return [file.file_path for file in new]
