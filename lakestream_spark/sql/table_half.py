"""The rows of a table's snapshot, as a query of DuckDB over its Parquet files."""

from collections.abc import Iterable
from typing import Final

import duckdb
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from lakestream_spark.history.manifests import ManifestCache, SnapshotFiles
from lakestream_spark.sql.column_types import literal, quoted, schema_argument
from lakestream_spark.sql.stored_files import StoredFiles
from lakestream_spark.table.outage import asking

_FILE: Final = "__lakestream_file"
_ROW: Final = "file_row_number"


def table_half(
    connection: duckdb.DuckDBPyConnection, files: StoredFiles, table: Table, name: str
) -> str | None:
    """A SELECT of all rows that are not deleted; None when there is no file.

    Positions of deleted rows become a table of that name.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return None
    with asking(table.name()):
        planned = ManifestCache().files_of(table.io, snapshot)
    whole = [file.path for file in planned.data if file.path not in planned.deleted]
    touched = [file.path for file in planned.data if file.path in planned.deleted]
    halves = []
    if whole:
        halves.append(f"SELECT * FROM {_scan(files, whole, table.schema())}")
    if touched:
        _register_deletes(connection, files, planned, name)
        scan = _scan(files, touched, table.schema(), f", filename={literal(_FILE)}, {_ROW}=true")
        halves.append(
            f"SELECT rows.* EXCLUDE ({_FILE}, {_ROW}) FROM {scan} AS rows "
            f"ANTI JOIN {quoted(name)} AS gone "
            f"ON rows.{_FILE} = gone.file AND rows.{_ROW} = gone.position"
        )
    return " UNION ALL BY NAME ".join(halves) or None


def _scan(files: StoredFiles, paths: Iterable[str], schema: Schema, more: str = "") -> str:
    places = ", ".join(literal(files.place_of(path)) for path in paths)
    return f"read_parquet([{places}], schema={schema_argument(schema)}{more})"


def _register_deletes(
    connection: duckdb.DuckDBPyConnection, files: StoredFiles, planned: SnapshotFiles, name: str
) -> None:
    parts = [
        pa.table(
            {
                "file": pa.repeat(files.place_of(path), len(positions)),
                "position": pa.array(positions),
            }
        )
        for path, positions in planned.deleted.items()
    ]
    connection.register(name, pa.concat_tables(parts))
