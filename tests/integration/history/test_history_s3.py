"""History of a table in an object store."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.history.reader import TableReader
from tests.support.delta_tables import GrowingTable
from tests.support.history import MEMORY, LocalHistory, records_in
from tests.support.rewriting import data_files, rewrite
from tests.support.s3 import NEEDS_S3, S3Server, s3_catalog, s3_server

__all__ = ["s3_server"]
pytestmark = list(NEEDS_S3)


@pytest.fixture
def orders(tmp_path: Path, s3_server: S3Server) -> Iterator[GrowingTable]:
    growing = GrowingTable.new(s3_catalog(s3_server, tmp_path), f"orders{uuid4().hex}")
    yield growing
    growing.close()


@pytest.fixture
def history(orders: GrowingTable) -> Iterator[LocalHistory]:
    reader = TableReader(orders.spec, MEMORY)
    yield LocalHistory(reader)
    reader.close()


def test_a_rewrite_whose_old_objects_go_at_once_is_invisible(
    orders: GrowingTable, history: LocalHistory
) -> None:
    topic = orders.topic
    orders.append(values=[b"a", b"b"])
    orders.append(values=[b"c", b"d"])
    assert [r.value for r in records_in(history.read(topic, 0, 1))] == [b"a", b"b"]
    old = [file.file_path for file in data_files(orders.table)]
    rewrite(orders.table, [orders.table.scan().to_arrow()], row_group_rows=3)
    for path in old:
        orders.table.io.delete(path)
    assert [r.value for r in records_in(history.read(topic, 2))][-2:] == [b"c", b"d"]


def test_an_object_that_is_lost_is_an_error_that_names_it(
    orders: GrowingTable, history: LocalHistory
) -> None:
    (file,) = orders.append()
    orders.table.io.delete(file.path)
    with pytest.raises(Corrupt, match=f"not there.*{file.path.rpartition('/')[2]}"):
        history.read(orders.topic, 0)
