"""Spark changes the table between our appends: the stream goes on, or it is red until mended."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakestream_spark.core.errors import RedTable
from lakestream_spark.table.append import Verdict
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.spark import ignore_sockets_of_spark, spark_session
from tests.support.stream_tables import StreamTable

pytestmark = [pytest.mark.spark, ignore_sockets_of_spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[SparkSession]:
    with spark_session(catalog_spec(folder)) as session:
        yield session


@pytest.fixture
def tables(folder: Path) -> Iterator[StreamCatalog]:
    catalog = StreamCatalog.open(catalog_spec(folder))
    yield catalog
    catalog.close()


def started(folder: Path, tables: StreamCatalog, topic: str) -> StreamTable:
    stream = StreamTable.new(folder, tables, topic)
    for partition in (0, 1):
        for _ in range(2):
            stream.append(5, partition=partition)
    return stream


def run(spark: SparkSession, statements: str, stream: StreamTable) -> None:
    """The statements with `T` for the table and `'T'` for its name inside the catalog."""
    quoted = f"'{'.'.join(stream.files.layout.identifier)}'"
    for statement in statements.split("; "):
        spark.sql(statement.replace("'T'", quoted).replace(" T ", f" {stream.name} ")).collect()


def seen_by_spark(spark: SparkSession, stream: StreamTable, partition: int = 0) -> list[int]:
    spark.sql(f"REFRESH TABLE {stream.name}").collect()
    query = f"SELECT __offset FROM {stream.name} WHERE __partition = {partition} ORDER BY __offset"
    return [row[0] for row in spark.sql(query).collect()]


MERGE_ON_READ = (
    "ALTER TABLE T SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read')"
)
MERGE = (
    "CALL lake.system.rewrite_data_files(table => 'T', strategy => 'sort', "
    "sort_order => '__partition, __offset', options => map('rewrite-all', 'true'))"
)


def test_stream_goes_on_through_lawful_changes_and_each_offset_is_there_once(
    spark: SparkSession, folder: Path, tables: StreamCatalog
) -> None:
    stream = started(folder, tables, "lawful")
    expected = list(range(10))
    steps: list[tuple[str, set[int]]] = [
        (MERGE, set()),
        ("DELETE FROM T WHERE __partition = 0 AND __offset = 3", {3}),
        ("UPDATE T SET __value = cast('new' AS binary) WHERE __offset = 5", set()),
        (MERGE_ON_READ, set()),
        ("DELETE FROM T WHERE __partition = 0 AND __offset IN (0, 12)", {0, 12}),
        ("UPDATE T SET __value = cast('newer' AS binary) WHERE __offset IN (5, 6)", set()),
        ("CALL lake.system.rewrite_position_delete_files(table => 'T')", set()),
        (MERGE, set()),
        ("ALTER TABLE T ADD COLUMN note string", set()),
        ("UPDATE T SET note = 'seen' WHERE __offset = 7", set()),
        ("CALL lake.system.rewrite_manifests(table => 'T')", set()),
        ("ALTER TABLE T WRITE ORDERED BY __timestamp", set()),
        ("ALTER TABLE T DROP PARTITION FIELD __partition", set()),
    ]
    for statement, gone in steps:
        run(spark, statement, stream)
        assert stream.append(1) is Verdict.APPLY, statement
        expected = [offset for offset in [*expected, expected[-1] + 1] if offset not in gone]
        assert stream.offsets() == expected, statement
    assert seen_by_spark(spark, stream) == expected
    assert seen_by_spark(spark, stream, partition=1) == list(range(10))


def test_unlawful_changes_stop_the_table_until_their_remedy_is_applied(
    spark: SparkSession, folder: Path, tables: StreamCatalog
) -> None:
    stream = started(folder, tables, "unlawful")
    newest = stream.load().snapshots()
    changes = [
        "INSERT INTO T SELECT 0, 77, null, 0, null, null, null, null",
        "INSERT INTO T SELECT * FROM T WHERE __offset = 4",
        "UPDATE T SET __offset = __offset + 1000 WHERE __offset = 4",
        f"CALL lake.system.rollback_to_snapshot('T', {newest[0].snapshot_id})",
        "ALTER TABLE T ADD PARTITION FIELD bucket(4, __offset)",
    ]
    expected = list(range(10))
    for change in changes:
        run(spark, change, stream)
        before = stream.offsets()
        with pytest.raises(RedTable) as red:
            stream.append(1)
        assert stream.offsets() == before, change
        run(spark, str(red.value.facts["remedy"]), stream)
        assert stream.append(1) is Verdict.APPLY, change
        expected.append(expected[-1] + 1)
        assert stream.offsets() == expected, change
    assert seen_by_spark(spark, stream) == expected


def test_foreign_expiry_is_refused(
    spark: SparkSession, folder: Path, tables: StreamCatalog
) -> None:
    stream = started(folder, tables, "expiry")
    with pytest.raises(Exception, match="Cannot expire snapshots: GC is disabled"):
        run(spark, "CALL lake.system.expire_snapshots('T', TIMESTAMP '2099-01-01')", stream)
    stream.append(1)
    assert stream.offsets() == list(range(11))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE T SET TBLPROPERTIES ('format-version' = '3')",
        "ALTER TABLE T DROP COLUMN __key",
        "ALTER TABLE T RENAME COLUMN __key TO key",
        "ALTER TABLE T ALTER COLUMN __partition TYPE bigint",
        "ALTER TABLE T UNSET TBLPROPERTIES ('lakestream.commit-id')",
        "ALTER TABLE T SET TBLPROPERTIES ('lakestream.ends' = '3,3')",
        "ALTER TABLE T REPLACE PARTITION FIELD __partition WITH truncate(10, __partition)",
    ],
)
def test_form_that_we_cannot_write_is_mended_by_its_remedy(
    spark: SparkSession, folder: Path, tables: StreamCatalog, change: str
) -> None:
    stream = started(folder, tables, f"form{abs(hash(change))}")
    run(spark, change, stream)
    with pytest.raises(RedTable) as red:
        stream.append(1)
    run(spark, str(red.value.facts["remedy"]), stream)
    assert stream.append(1) is Verdict.APPLY
    assert seen_by_spark(spark, stream) == list(range(11))


def delete_by_equality(spark: SparkSession, stream: StreamTable, offset: int) -> None:
    """An equality delete of an offset of partition 0; no SQL makes one, Iceberg's own API does."""
    path = f"{stream.files.layout.location}/_data/by-equality.parquet"
    column = pa.field("__offset", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2"})
    with stream.load().io.new_output(path).create() as file:
        pq.write_table(pa.table([[offset]], schema=pa.schema([column])), file)
        size = file.tell()
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession, stream.name
    )
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)  # type: ignore[union-attr]
    ids[0] = 2
    builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
    deletes = builder.ofEqualityDeletes(ids).withPath(path).withFileSizeInBytes(size)
    deletes = deletes.withFormat("parquet").withRecordCount(1).withPartitionPath("__partition=0")
    table.newRowDelta().addDeletes(deletes.build()).commit()


@pytest.mark.slow
def test_equality_deletes_are_applied_by_their_remedy(
    spark: SparkSession, folder: Path, tables: StreamCatalog
) -> None:
    stream = started(folder, tables, "equality")
    delete_by_equality(spark, stream, 4)
    with pytest.raises(RedTable, match="by equality") as red:
        stream.append(1)
    run(spark, str(red.value.facts["remedy"]), stream)
    assert stream.append(1) is Verdict.APPLY
    assert seen_by_spark(spark, stream) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
