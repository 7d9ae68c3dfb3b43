import asyncio
import contextlib
import io
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from lakestream_spark.cli.connect import ENGINES, Place
from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog
from tests.support import duckdb_extensions
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.s3 import S3Server, s3_catalog, s3_server
from tests.support.stream_tables import StreamTable, append_of
from tests.support.tables import TableFiles, rows, write_file

__all__ = ["s3_server"]

REMOTE = Place(
    topic="orders",
    data="s3://lake",
    catalog=CatalogSpec(
        name="lake",
        warehouse="s3://lake/warehouse",
        properties={
            "type": "sql",
            "uri": "postgresql+psycopg2://me:hush@db:5432/lake",
            "s3.secret-access-key": "hush",
        },
    ),
    identifier=("streams", "orders"),
    location="s3://lake/warehouse/streams/orders-1",
    metadata="s3://lake/warehouse/streams/orders-1/_iceberg/00001-a.metadata.json",
    has_delta=True,
)


async def created(folder: Path) -> Topic:
    metadata = await open_metadata(metadata_url(folder), clock=SystemClock())
    try:
        return await metadata.topics.create("orders")
    finally:
        await metadata.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """With a topic of five rows."""
    topic = asyncio.run(created(tmp_path))
    with contextlib.closing(StreamCatalog.open(catalog_spec(tmp_path))) as tables:
        StreamTable(tables=tables, files=TableFiles.of(tmp_path, tables, topic)).append(5)
    return tmp_path


def told(folder: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(lakestream, ["connect", *words, "--data", str(folder)]) == code
    said = capsys.readouterr()
    return said.out + said.err


def test_what_is_said_of_pyiceberg_reads_the_table(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = told(lake, capsys, "pyiceberg", "orders")
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(program, names)
    names["catalog"].close()  # type: ignore[attr-defined]
    assert "__offset: [[0,1,2,3,4]]" in shown.getvalue()


def test_what_is_said_of_duckdb_reads_the_table(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (query,) = re.findall("SELECT .*", told(lake, capsys, "duckdb", "orders"))
    with duckdb.connect() as connection:
        duckdb_extensions.load(connection, "avro", "iceberg")
        assert len(connection.execute(query).fetchall()) == 5


def test_what_is_said_of_spark_names_the_catalog_and_the_table(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(lake, capsys, "spark", "orders")
    assert f"spark.sql.catalog.lake.uri=jdbc:sqlite:{lake}/catalog.db" in said
    assert "FROM lake.streams.orders" in said
    assert f'lakestream_spark.read(spark, "orders", data="{lake}")' in said


@pytest.mark.parametrize("engine", ENGINES)
def test_no_secret_is_shown(engine: str) -> None:
    said = ENGINES[engine](REMOTE)
    assert "hush" not in said
    assert "orders" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("flink", "orders"), "'flink' is not one of spark, duckdb"),
        (("duckdb", "nobody"), "no such topic"),
        (("trino", "orders"), "Trino opens no catalog in SQLite"),
        (("databricks", "orders"), "cannot reach a folder of this machine"),
        (("snowflake", "orders"), "cannot reach a folder of this machine"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    lake: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str], sentence: str
) -> None:
    assert sentence in told(lake, capsys, *words, code=2)


def on(warehouse: str, **properties: str) -> Place:
    """The same table in another store."""
    own = {**REMOTE.catalog.properties, **properties}
    catalog = CatalogSpec(name="lake", warehouse=warehouse, properties=own)
    return replace(REMOTE, catalog=catalog, metadata=f"{warehouse}/a.metadata.json")


@pytest.mark.parametrize(
    ("warehouse", "secret"),
    [
        ("s3://lake/w", "(TYPE s3, PROVIDER credential_chain)"),
        ("gs://lake/w", "(TYPE gcs, KEY_ID '...', SECRET '...')"),
        (
            "abfss://box@mine.dfs.core.windows.net/w",
            "(TYPE azure, PROVIDER credential_chain, ACCOUNT_NAME 'mine')",
        ),
    ],
)
def test_duckdb_gets_the_kind_of_secret_that_the_store_needs(warehouse: str, secret: str) -> None:
    assert f"CREATE SECRET {secret};" in ENGINES["duckdb"](on(warehouse))


@pytest.mark.parametrize(
    ("warehouse", "line"),
    [
        ("s3://lake/w", "fs.native-s3.enabled=true"),
        ("gs://lake/w", "fs.native-gcs.enabled=true"),
        ("abfss://box@mine.dfs.core.windows.net/w", "fs.native-azure.enabled=true"),
    ],
)
def test_trino_is_told_which_files_to_open(warehouse: str, line: str) -> None:
    assert line in ENGINES["trino"](on(warehouse)).splitlines()


def test_trino_is_told_who_asks_the_catalog_and_how_a_server_of_ones_own_is_reached() -> None:
    more = {"s3.endpoint": "http://minio:9000", "s3.region": "here", "s3.access-key-id": "me"}
    said = ENGINES["trino"](on("s3://lake/w", **more)).splitlines()
    assert {
        "iceberg.jdbc-catalog.connection-url=jdbc:postgresql://db:5432/lake",
        "iceberg.jdbc-catalog.connection-user=me",
        "iceberg.jdbc-catalog.connection-password=...",
        "s3.endpoint=http://minio:9000",
        "s3.region=here",
        "s3.path-style-access=true",
        "s3.aws-access-key=me",
        "s3.aws-secret-key=...",
    } <= set(said)


@pytest.mark.s3
@pytest.mark.timeout(func_only=True)
def test_what_is_said_of_duckdb_reads_a_table_in_a_bucket(
    tmp_path: Path, s3_server: S3Server
) -> None:
    spec, topic = s3_catalog(s3_server, tmp_path), asyncio.run(created(tmp_path))
    with contextlib.closing(StreamCatalog.open(spec)) as tables:
        layout = tables.layout(topic.id, topic.name)
        five = write_file(spec.file_io(), layout, PlannedRange(0, 0, 5), rows(0, [b"v"] * 5))
        tables.append(layout, append_of(five))
        table = tables.load(layout)
    assert table is not None
    place = replace(
        REMOTE, catalog=spec, location=table.location(), metadata=table.metadata_location
    )
    said = ENGINES["duckdb"](place)
    assert f"ENDPOINT '{s3_server.host}:{s3_server.port}'" in said
    # What a person does with it: the dots become the secret. The extensions are wheels here.
    typed = said.replace("'...'", f"'{spec.properties['s3.secret-access-key']}'")
    statements = [line for line in typed.splitlines() if not line.startswith("INSTALL")]
    with duckdb.connect() as connection:
        duckdb_extensions.load(connection, "httpfs", "avro", "iceberg")
        for statement in statements:
            connection.execute(statement)
        (query,) = re.findall("SELECT .*", typed)
        assert len(connection.execute(query).fetchall()) == 5


def test_databricks_needs_the_delta_log() -> None:
    with pytest.raises(Misconfigured, match=r"topic alter orders --config lakestream\.table"):
        ENGINES["databricks"](replace(REMOTE, has_delta=False))
