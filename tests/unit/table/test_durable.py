"""Everything a commit wrote is on the disk before the catalog points at it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.table.synced_io import SyncedFileIO
from tests.support.stream_tables import StreamTable
from tests.support.syncs import note_syncs

CATALOG_MOVED = -1


@pytest.fixture
def synced(tables: StreamCatalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The inodes that were synced, and when the catalog was changed between them."""
    happened = note_syncs(monkeypatch)

    def executed(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("UPDATE iceberg_tables"):
            happened.append(CATALOG_MOVED)

    assert isinstance(tables._catalog, SqlCatalog)
    engine = tables._catalog.engine
    event.listen(engine, "before_cursor_execute", executed)
    yield happened
    event.remove(engine, "before_cursor_execute", executed)


def test_files_and_folders_of_a_commit_are_synced_before_the_catalog_changes(
    tmp_path: Path, tables: StreamCatalog, synced: list[int]
) -> None:
    stream = StreamTable.new(tmp_path, tables, "orders")
    stream.append(2)
    root = Path(stream.files.layout.location.removeprefix("file://"))
    before = set(synced[: synced.index(CATALOG_MOVED)])
    written = {path for path in root.rglob("*") if path.is_file()}
    assert {path.suffix for path in written} == {".parquet", ".avro", ".json"}
    folders = {path for path in root.rglob("*") if path.is_dir()}
    for path in (*written, *folders, root, root.parent):
        assert path.stat().st_ino in before, path


def test_file_name_is_never_written_twice(tmp_path: Path) -> None:
    io = SyncedFileIO()
    place = f"file://{tmp_path}/a b%20c/file"
    with io.new_output(place).create() as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError):
        io.new_output(place).create()
    assert (tmp_path / "a b%20c" / "file").read_bytes() == b"first"


@pytest.mark.parametrize(
    ("warehouse", "syncs"),
    [("file:///w", True), ("/w", True), ("s3://bucket/w", False)],
)
def test_local_warehouses_alone_are_synced(warehouse: str, syncs: bool) -> None:
    io = CatalogSpec(name="lake", warehouse=warehouse, properties={}).file_io()
    assert isinstance(io, SyncedFileIO) is syncs
