"""One table, many readers: Spark, pyiceberg and DuckDB see the same rows, now and back in time."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import duckdb
import pytest
from pyspark.sql import SparkSession

from lakestream_spark.spark.catalogs import catalog_conf
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog
from tests.support import duckdb_extensions
from tests.support.embedded import catalog_spec
from tests.support.postgres import postgres_server, postgres_url
from tests.support.postgres_proxy import PostgresProxy
from tests.support.rest_catalog import rest_catalog
from tests.support.spark import ignore_sockets_of_spark, spark_session
from tests.support.stream_tables import StreamTable

__all__ = ["postgres_server", "postgres_url"]

pytestmark = [pytest.mark.spark, ignore_sockets_of_spark, pytest.mark.timeout(900)]
Rows = list[tuple[int, int, bytes]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[SparkSession]:
    with spark_session(catalog_spec(folder)) as session:
        yield session


def rows_up_to(*ends: int) -> Rows:
    return [
        (partition, offset, str(offset).encode())
        for partition, end in enumerate(ends)
        for offset in range(end)
    ]


def by_spark(spark: SparkSession, table: str, at: str = "") -> Rows:
    query = f"SELECT __partition, __offset, __value FROM {table} {at} ORDER BY 1, 2"
    return [(row[0], row[1], bytes(row[2])) for row in spark.sql(query).collect()]


def by_pyiceberg(stream: StreamTable, snapshot_id: int | None = None) -> Rows:
    found = stream.load().scan(snapshot_id=snapshot_id).to_arrow()
    columns = (found[name].to_pylist() for name in ("__partition", "__offset", "__value"))
    return sorted(zip(*columns, strict=True))


def by_duckdb(stream: StreamTable, at: str = "") -> Rows:
    metadata = stream.load().metadata_location.removeprefix("file://")
    with duckdb.connect() as connection:
        duckdb_extensions.load(connection, "avro", "iceberg")
        query = f"SELECT __partition, __offset, __value FROM iceberg_scan('{metadata}'{at})"
        return sorted(connection.execute(query).fetchall())


def test_readers_agree_on_every_snapshot(spark: SparkSession, folder: Path) -> None:
    tables = StreamCatalog.open(catalog_spec(folder))
    stream = StreamTable.new(folder, tables, "orders")
    ends = [(4, 0), (4, 3), (9, 3)]
    for partition, count in ((0, 4), (1, 3), (0, 5)):
        stream.append(count, partition=partition)
    snapshots = stream.load().snapshots()
    for snapshot, expected in zip(snapshots, (rows_up_to(*e) for e in ends), strict=True):
        number = snapshot.snapshot_id
        assert by_spark(spark, stream.name, f"VERSION AS OF {number}") == expected
        assert by_pyiceberg(stream, number) == expected
        assert by_duckdb(stream, f", snapshot_from_id => {number}") == expected
    assert by_spark(spark, stream.name) == by_pyiceberg(stream) == by_duckdb(stream)
    comments = spark.sql(f"DESCRIBE TABLE {stream.name}").collect()
    assert {row.col_name: row.comment for row in comments}["__offset"] == (
        "Offset within the partition."
    )
    properties = spark.sql(f"SHOW TBLPROPERTIES {stream.name}").collect()
    told = {row.key: row.value for row in properties}
    assert told["lakestream.topic-id"] == str(stream.files.layout.topic_id)
    tables.close()


def open_in(spark: SparkSession, spec: CatalogSpec) -> None:
    """A catalog more in a running session; it is opened when it is first named."""
    for key, value in catalog_conf(spec).items():
        spark.conf.set(key, value)


def check_shared(spark: SparkSession, folder: Path, spec: CatalogSpec) -> None:
    """Spark reads what we append, and its own delete is ours too."""
    open_in(spark, spec)
    tables = StreamCatalog.open(spec)
    stream = StreamTable.new(folder, tables, f"orders_{uuid4().hex[:6]}x")
    name = ".".join((spec.name, *stream.files.layout.identifier))
    stream.append(3)
    assert by_spark(spark, name) == rows_up_to(3)
    spark.sql(f"DELETE FROM {name} WHERE __offset = 1").collect()
    stream.append(1)
    assert stream.offsets() == [0, 2, 3]
    spark.sql(f"REFRESH TABLE {name}").collect()
    assert [row[1] for row in by_spark(spark, name)] == [0, 2, 3]
    tables.close()


def test_spark_and_pyiceberg_share_a_rest_catalog(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    with rest_catalog(tmp_path) as spec:
        named = CatalogSpec(name="rest", warehouse=spec.warehouse, properties=spec.properties)
        check_shared(spark, folder, named)


@pytest.mark.postgres
async def test_spark_and_pyiceberg_share_a_catalog_on_postgresql(
    spark: SparkSession, folder: Path, postgres_url: str
) -> None:
    # Java speaks no Unix sockets.
    async with PostgresProxy(postgres_url) as proxy:
        uri = proxy.url.replace("postgresql://", "postgresql+psycopg2://")
        spec = CatalogSpec(
            name="postgres",
            warehouse=f"file://{folder}/warehouse",
            properties={"type": "sql", "uri": uri},
        )
        await asyncio.to_thread(check_shared, spark, folder, spec)
