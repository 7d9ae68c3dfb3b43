"""`lakestream connect ENGINE TOPIC`: what to type into an engine to read a topic's table."""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import click

from lakestream_spark.cli.asking import table_of
from lakestream_spark.cli.engine_storage import duckdb_secret, trino_files
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.python_settings import PythonSettings, embedded, python_settings
from lakestream_spark.cli.quoting import in_backticks, in_quotes, spark_text, text
from lakestream_spark.cli.secrecy import DOTS, without_secrets
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.spark.catalogs import catalog_conf, is_on_s3
from lakestream_spark.spark.jars import COORDINATES, S3_COORDINATES, SHIPPED_WITH_SPARK
from lakestream_spark.table.spec import CatalogSpec

_EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_S3_JARS: Final = "python -m lakestream_spark.spark.jars --s3"
_UNITY: Final = "main"
"""Unity Catalog's first catalog: a workspace has it unless somebody took it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a topic's table is."""

    topic: str
    python: PythonSettings
    catalog: CatalogSpec
    identifier: tuple[str, ...]
    location: str
    metadata: str
    """The newest metadata file."""
    has_delta: bool

    @property
    def is_local(self) -> bool:
        return self.location.startswith(("file:", "/"))


@click.command()
@click.argument("engine", metavar="ENGINE")
@click.argument("topic")
@settings_options
@click.pass_context
def connect(context: click.Context, loaded: Loaded, engine: str, topic: str) -> None:
    """Print what to type into an engine to read a topic's table.

    ENGINE is spark, duckdb, pyiceberg, trino, databricks or snowflake. Secrets are left out.
    """
    snippet = ENGINES.get(engine)
    if snippet is None:
        known = ", ".join(ENGINES)
        raise click.BadParameter(f"{engine!r} is not one of {known}", param_hint="ENGINE")
    python = python_settings(loaded, context.params["conf"], os.environ)
    click.echo(snippet(place_of(loaded.settings, topic, python)))


def place_of(settings: Settings, name: str, python: PythonSettings | None = None) -> Place:
    """Where the topic's table is; raises what a command tells when there is none.

    `python` says how Python finds it, unless a folder of this machine is all there is to know.
    """
    topic, table = table_of(settings, name)
    return Place(
        topic=name,
        python=python or embedded(settings),
        catalog=catalog_spec(settings),
        identifier=table.name(),
        location=table.location(),
        metadata=table.metadata_location,
        has_delta="delta" in TopicConfig.of(topic.config).table_formats,
    )


def spark(place: Place) -> str:
    packages = [*COORDINATES, *(S3_COORDINATES if is_on_s3(place.catalog) else ())]
    conf = {**without_secrets(catalog_conf(place.catalog)), "spark.sql.extensions": _EXTENSIONS}
    table = in_backticks(place.catalog.name, *place.identifier)
    words = [
        ("--packages", ",".join(packages)),
        # A second version beside the one that Spark ships with breaks it.
        ("--exclude-packages", ",".join(SHIPPED_WITH_SPARK)),
        *(("--conf", f"{key}={value}") for key, value in conf.items()),
        ("-e", f"SELECT * FROM {table} LIMIT 10"),
    ]
    lines = ["spark-sql", *(f"  {flag} {shlex.quote(value)}" for flag, value in words)]
    fetched = f"; before, once, `{_S3_JARS}`" if is_on_s3(place.catalog) else ""
    return (
        "# The table, in any Spark 4.1:\n"
        + " \\\n".join(lines)
        + f"\n\n# The table and what is not in it yet, in Python{fetched}:\n"
        + spark_python(place)
    )


def spark_python(place: Place) -> str:
    own = place.python
    lines = [
        *own.imports,
        "",
        *own.assignments,
        f"spark = lakestream_spark.session({own.given})",
        f'lakestream_spark.read(spark, "{place.topic}", {own.given}).show()',
    ]
    return "\n".join(lines)


def duckdb(place: Place) -> str:
    source = text(place.metadata.removeprefix("file://"))
    before = ["INSTALL iceberg; LOAD iceberg;", *duckdb_secret(place.catalog)]
    return (
        "\n".join(before) + "\n"
        f"SELECT * FROM iceberg_scan({source}) LIMIT 10;\n"
        "-- This is the newest snapshot of now; ask again for a newer one."
    )


def pyiceberg(place: Place) -> str:
    properties = without_secrets({**place.catalog.properties, "warehouse": place.catalog.warehouse})
    given = "".join(f"    {key!r}: {value!r},\n" for key, value in properties.items())
    return (
        "from pyiceberg.catalog import load_catalog\n\n"
        f"catalog = load_catalog({place.catalog.name!r}, **{{\n{given}}})\n"
        f"table = catalog.load_table({'.'.join(place.identifier)!r})\n"
        "print(table.scan(limit=10).to_arrow())"
    )


def trino(place: Place) -> str:
    own = without_secrets(place.catalog.properties)
    kind = own.get("type", "sql")
    if kind == "sql":
        conf = without_secrets(catalog_conf(place.catalog))
        prefix = f"spark.sql.catalog.{place.catalog.name}."
        uri = conf[f"{prefix}uri"]
        if uri.startswith("jdbc:sqlite"):
            raise Misconfigured(
                "Trino opens no catalog in SQLite: put the catalog on PostgreSQL, REST or Glue "
                "(catalog.type, catalog.uri)"
            )
        lines = [
            "iceberg.catalog.type=jdbc",
            "iceberg.jdbc-catalog.driver-class=org.postgresql.Driver",
            f"iceberg.jdbc-catalog.connection-url={uri}",
            f"iceberg.jdbc-catalog.connection-user={conf.get(f'{prefix}jdbc.user', DOTS)}",
            f"iceberg.jdbc-catalog.connection-password={DOTS}",
            f"iceberg.jdbc-catalog.catalog-name={place.catalog.name}",
            f"iceberg.jdbc-catalog.default-warehouse-dir={place.catalog.warehouse}",
            "iceberg.jdbc-catalog.schema-version=V1",
        ]
    elif kind == "rest":
        lines = ["iceberg.catalog.type=rest", f"iceberg.rest-catalog.uri={own.get('uri', '')}"]
    else:
        lines = [f"iceberg.catalog.type={kind}"]
    return (
        f"# etc/catalog/{place.catalog.name}.properties\n"
        "connector.name=iceberg\n"
        + "\n".join([*lines, *trino_files(place.catalog)])
        + f"\n\n-- then\nSELECT * FROM {in_quotes(place.catalog.name, *place.identifier)} LIMIT 10;"
    )


def databricks(place: Place) -> str:
    _refuse_local(place, "Databricks")
    if not place.has_delta:
        raise Misconfigured(
            f"the topic has no Delta log: `lakestream topic alter {place.topic} "
            "--config lakestream.table.formats=iceberg,delta`, then flush it"
        )
    *schema, table = place.identifier
    name = in_backticks(_UNITY, *schema, table)
    return (
        f"CREATE SCHEMA IF NOT EXISTS {in_backticks(_UNITY, *schema)};\n"
        f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION {spark_text(place.location)};\n"
        f"SELECT * FROM {name} LIMIT 10;\n"
        "-- The location must lie in an external location of Unity Catalog."
    )


def snowflake(place: Place) -> str:
    _refuse_local(place, "Snowflake")
    inside = place.metadata.removeprefix(place.location).lstrip("/")
    table = in_quotes(place.identifier[-1])
    return (
        "CREATE OR REPLACE CATALOG INTEGRATION lakestream\n"
        "  CATALOG_SOURCE = OBJECT_STORE TABLE_FORMAT = ICEBERG ENABLED = TRUE;\n"
        f"-- my_volume: an external volume whose base is {place.location}/\n"
        f"CREATE OR REPLACE ICEBERG TABLE {table}\n"
        "  EXTERNAL_VOLUME = 'my_volume' CATALOG = 'lakestream'\n"
        f"  METADATA_FILE_PATH = {text(inside)};\n"
        f"SELECT * FROM {table} LIMIT 10;\n"
        f"-- Newer snapshots: ALTER ICEBERG TABLE {table} REFRESH '<metadata file>';"
    )


ENGINES: Final[Mapping[str, Callable[[Place], str]]] = {
    "spark": spark,
    "duckdb": duckdb,
    "pyiceberg": pyiceberg,
    "trino": trino,
    "databricks": databricks,
    "snowflake": snowflake,
}


def _refuse_local(place: Place, who: str) -> None:
    if place.is_local:
        raise Misconfigured(
            f"{who} cannot reach a folder of this machine: put the tables into a bucket",
            location=place.location,
        )
