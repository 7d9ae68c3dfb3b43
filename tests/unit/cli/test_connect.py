import asyncio
import contextlib
import io
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest import mock

import duckdb
import pytest

import lakestream_spark
from lakestream_spark.cli.connect import ENGINES, Place, spark_python
from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.cli.python_settings import PythonSettings, python_settings
from lakestream_spark.cli.quoting import in_backticks, in_quotes, spark_text, text
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.reading import installation
from lakestream_spark.settings import Entry, Loaded, load
from lakestream_spark.settings.installation import installation_of
from lakestream_spark.spark.jars import S3_COORDINATES, SHIPPED_WITH_SPARK
from lakestream_spark.spark.reading.installation import Installation
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog
from tests.support import duckdb_extensions
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.s3 import S3Server, s3_catalog, s3_server
from tests.support.stream_tables import StreamTable, append_of
from tests.support.tables import TableFiles, rows, write_file

__all__ = ["s3_server"]

REMOTE = Place(
    topic="orders",
    python=PythonSettings(arguments={"data": "s3://lake"}),
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
    return filled(tmp_path)


def filled(folder: Path) -> Path:
    """With a topic of five rows."""
    topic = asyncio.run(created(folder))
    with contextlib.closing(StreamCatalog.open(catalog_spec(folder))) as tables:
        StreamTable(tables=tables, files=TableFiles.of(folder, tables, topic)).append(5)
    return folder


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
    assert "-e 'SELECT * FROM `lake`.`streams`.`orders` LIMIT 10'" in said
    assert f'lakestream_spark.read(spark, "orders", data="{lake}")' in said


def spark_words(place: Place) -> list[str]:
    """What a shell would give to `spark-sql`."""
    command, _, _ = ENGINES["spark"](place).partition("\n\n")
    return shlex.split(command, comments=True)


def test_spark_is_told_the_jars_of_the_store_and_those_it_must_not_load_twice() -> None:
    for place, on_s3 in ((REMOTE, True), (on("file:///lake"), False)):
        words = spark_words(place)
        packages = words[words.index("--packages") + 1].split(",")
        assert (set(S3_COORDINATES) <= set(packages)) is on_s3
        excluded = words[words.index("--exclude-packages") + 1]
        assert excluded == ",".join(SHIPPED_WITH_SPARK)


CONF = """
data = "s3://bucket/lake"
[metadata]
url = "postgresql://me@db/lake"
[store]
region = "here"
access_key_id = "id"
[catalog.properties]
"s3.region" = "here"
"""


def settings_of(
    folder: Path, file: str, environ: Mapping[str, str], **flags: str
) -> tuple[Loaded, Path | None]:
    """As a command with these flags loads them, and the file that `--conf` named."""
    conf = folder / "lake.toml" if file else None
    if conf is not None:
        conf.write_text(file)
    given = [Entry(key=key, value=value, origin=f"--set {key}") for key, value in flags.items()]
    return load(environ=environ, flags=given, conf=conf), conf


def what_a_program_reads(program: str, monkeypatch: pytest.MonkeyPatch) -> list[Installation]:
    """Where `session` and `read` would look, asked with just what the program says."""
    asked: list[Installation] = []

    def session(*, data: str | None = None, conf: str | None = None) -> None:
        asked.append(installation(data, conf))

    def read(
        spark: None, topic: str, *, data: str | None = None, conf: str | None = None
    ) -> mock.Mock:
        asked.append(installation(data, conf))
        return mock.Mock()

    monkeypatch.setattr(lakestream_spark, "session", session)
    monkeypatch.setattr(lakestream_spark, "read", read)
    with monkeypatch.context() as elsewhere:
        for name in [name for name in os.environ if name.startswith("LAKESTREAM_")]:
            elsewhere.delenv(name)
        with mock.patch.dict(os.environ):
            exec(program, {})
    return asked


@pytest.mark.parametrize(
    ("file", "environ", "flags"),
    [
        ("", {}, {"data": "/somewhere"}),
        ("", {"LAKESTREAM_DATA": "/somewhere"}, {}),
        ("", {}, {"data": "/somewhere", "store.url": "file:///elsewhere"}),
        (CONF, {}, {}),
        (CONF, {}, {"data": "s3://another", "catalog.name": "other"}),
        (CONF, {"LAKESTREAM_STORE__ALLOW_HTTP": "true"}, {"store.region": "there"}),
        (
            "",
            {"LAKESTREAM_METADATA__URL": "postgresql://me@db/lake", "LAKESTREAM_BROKER__ID": "7"},
            {"data": "s3://bucket", "catalog.properties": '{"s3.region": "here"}'},
        ),
    ],
)
def test_the_program_for_spark_reads_what_the_command_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    environ: dict[str, str],
    flags: dict[str, str],
) -> None:
    loaded, conf = settings_of(tmp_path, file, environ, **flags)
    program = spark_python(replace(REMOTE, python=python_settings(loaded, conf, environ)))
    monkeypatch.chdir(tmp_path)
    asked = what_a_program_reads(program, monkeypatch)
    assert asked == [installation_of(loaded.settings)] * 2


def test_the_program_names_a_folder_and_a_file_by_their_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded, _ = settings_of(tmp_path, "[store]\nrequest_timeout_s = 1\n", {}, data="./lake")
    own = python_settings(loaded, Path("lake.toml"), {})
    assert own.arguments == {"data": f"{tmp_path}/lake", "conf": f"{tmp_path}/lake.toml"}


def test_the_program_shows_no_secret_that_a_flag_or_a_variable_gave(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://me:hush@db/lake")
    environ = {
        "LAKESTREAM_METADATA__URL_FILE": str(tmp_path / "url"),
        "LAKESTREAM_CATALOG__URI": "postgresql://me:hu@sh@db/lake?sslpassword=hush",
    }
    flags = {"data": "s3://bucket", "store.secret_access_key": "hush"}
    secret = {"catalog.properties": '{"s3.secret-access-key": "hush"}'}
    loaded, _ = settings_of(tmp_path, "", environ, **flags, **secret)
    own = python_settings(loaded, None, environ)
    assert own.variables == {
        "LAKESTREAM_METADATA__URL_FILE": str(tmp_path / "url"),
        "LAKESTREAM_CATALOG__URI": "postgresql://me:...@db/lake?sslpassword=...",
        "LAKESTREAM_STORE__SECRET_ACCESS_KEY": "...",
        "LAKESTREAM_CATALOG__PROPERTIES": '{"s3.secret-access-key": "..."}',
    }


@pytest.mark.parametrize("name", ["select", "order", "9x", "orders"])
@pytest.mark.parametrize(
    ("engine", "lines"),
    [
        ("spark", ["SELECT * FROM `lake`.`streams`.`{}` LIMIT 10"]),
        ("trino", ['SELECT * FROM "lake"."streams"."{}" LIMIT 10']),
        (
            "databricks",
            [
                "CREATE SCHEMA IF NOT EXISTS `main`.`streams`;",
                "CREATE TABLE IF NOT EXISTS `main`.`streams`.`{}` USING DELTA",
                "SELECT * FROM `main`.`streams`.`{}` LIMIT 10",
            ],
        ),
        (
            "snowflake",
            [
                'CREATE OR REPLACE ICEBERG TABLE "{}"',
                'SELECT * FROM "{}" LIMIT 10',
                'ALTER ICEBERG TABLE "{}" REFRESH',
            ],
        ),
        ("pyiceberg", ["load_table('streams.{}')"]),
    ],
)
def test_a_table_may_be_called_by_any_word(engine: str, lines: list[str], name: str) -> None:
    said = ENGINES[engine](replace(REMOTE, identifier=("streams", name)))
    for line in lines:
        assert line.format(name) in said


@pytest.mark.parametrize(
    ("quoted", "expected"),
    [
        (in_backticks("a`b", "c"), "`a``b`.`c`"),
        (in_quotes('a"b', "c"), '"a""b"."c"'),
        (text("o'brien"), "'o''brien'"),
        (spark_text("o'b\\n"), r"'o\'b\\n'"),
    ],
)
def test_a_quote_within_a_name_does_not_end_it(quoted: str, expected: str) -> None:
    assert quoted == expected


def test_what_is_said_of_duckdb_reads_a_table_below_a_folder_with_a_quote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "o'brien"
    folder.mkdir()
    (query,) = re.findall("SELECT .*", told(filled(folder), capsys, "duckdb", "orders"))
    with duckdb.connect() as connection:
        duckdb_extensions.load(connection, "avro", "iceberg")
        assert len(connection.execute(query).fetchall()) == 5


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
