"""`lakestream connect ENGINE TOPIC`: what to type into an engine to read a topic's table."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import click

from lakestream_spark.cli.asking import table_of
from lakestream_spark.cli.engine_storage import DOTS, duckdb_secret, trino_files
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.spark.catalogs import catalog_conf
from lakestream_spark.spark.jars import COORDINATES
from lakestream_spark.table.spec import CatalogSpec

_SECRETS: Final = ("password", "secret", "token", "credential")
_PASSWORD: Final = re.compile(r"(//[^/@:]*:)[^/@]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a topic's table is."""

    topic: str
    data: str
    catalog: CatalogSpec
    identifier: tuple[str, ...]
    location: str
    metadata: str
    """The newest metadata file."""
    has_delta: bool

    @property
    def table(self) -> str:
        return ".".join(self.identifier)

    @property
    def is_local(self) -> bool:
        return self.location.startswith(("file:", "/"))


@click.command()
@click.argument("engine", metavar="ENGINE")
@click.argument("topic")
@settings_options
def connect(loaded: Loaded, engine: str, topic: str) -> None:
    """Print what to type into an engine to read a topic's table.

    ENGINE is spark, duckdb, pyiceberg, trino, databricks or snowflake. Secrets are left out.
    """
    snippet = ENGINES.get(engine)
    if snippet is None:
        known = ", ".join(ENGINES)
        raise click.BadParameter(f"{engine!r} is not one of {known}", param_hint="ENGINE")
    click.echo(snippet(place_of(loaded.settings, topic)))


def place_of(settings: Settings, name: str) -> Place:
    """Where the topic's table is; raises what a command tells when there is none."""
    topic, table = table_of(settings, name)
    return Place(
        topic=name,
        data=str(settings.data),
        catalog=catalog_spec(settings),
        identifier=table.name(),
        location=table.location(),
        metadata=table.metadata_location,
        has_delta="delta" in TopicConfig.of(topic.config).table_formats,
    )


def spark(place: Place) -> str:
    conf = _shown(catalog_conf(place.catalog))
    lines = [f"  --packages {','.join(COORDINATES)}"]
    lines += [f"  --conf {key}={value}" for key, value in conf.items()]
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    lines.append(f"  --conf spark.sql.extensions={extensions}")
    return (
        "# The table, in any Spark 4.1:\n"
        "spark-sql \\\n"
        + " \\\n".join(lines)
        + f" \\\n  -e 'SELECT * FROM {place.catalog.name}.{place.table} LIMIT 10'\n\n"
        + "# The table and what is not in it yet, in Python:\n"
        + spark_python(place)
    )


def spark_python(place: Place) -> str:
    return (
        "import lakestream_spark\n\n"
        f'spark = lakestream_spark.session(data="{place.data}")\n'
        f'lakestream_spark.read(spark, "{place.topic}", data="{place.data}").show()'
    )


def duckdb(place: Place) -> str:
    source = place.metadata.removeprefix("file://")
    before = ["INSTALL iceberg; LOAD iceberg;", *duckdb_secret(place.catalog)]
    return (
        "\n".join(before) + "\n"
        f"SELECT * FROM iceberg_scan('{source}') LIMIT 10;\n"
        "-- This is the newest snapshot of now; ask again for a newer one."
    )


def pyiceberg(place: Place) -> str:
    properties = _shown({**place.catalog.properties, "warehouse": place.catalog.warehouse})
    given = "".join(f"    {key!r}: {value!r},\n" for key, value in properties.items())
    return (
        "from pyiceberg.catalog import load_catalog\n\n"
        f"catalog = load_catalog({place.catalog.name!r}, **{{\n{given}}})\n"
        f"table = catalog.load_table({place.table!r})\n"
        "print(table.scan(limit=10).to_arrow())"
    )


def trino(place: Place) -> str:
    own = _shown(place.catalog.properties)
    kind = own.get("type", "sql")
    if kind == "sql":
        conf = _shown(catalog_conf(place.catalog))
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
        + f"\n\n-- then\nSELECT * FROM {place.catalog.name}.{place.table} LIMIT 10;"
    )


def databricks(place: Place) -> str:
    _refuse_local(place, "Databricks")
    if not place.has_delta:
        raise Misconfigured(
            f"the topic has no Delta log: `lakestream topic alter {place.topic} "
            "--config lakestream.table.formats=iceberg,delta`, then flush it"
        )
    return (
        f"CREATE TABLE IF NOT EXISTS main.{place.table} USING DELTA LOCATION '{place.location}';\n"
        f"SELECT * FROM main.{place.table} LIMIT 10;\n"
        "-- The location must lie in an external location of Unity Catalog."
    )


def snowflake(place: Place) -> str:
    _refuse_local(place, "Snowflake")
    inside = place.metadata.removeprefix(place.location).lstrip("/")
    return (
        "CREATE OR REPLACE CATALOG INTEGRATION lakestream\n"
        "  CATALOG_SOURCE = OBJECT_STORE TABLE_FORMAT = ICEBERG ENABLED = TRUE;\n"
        f"-- my_volume: an external volume whose base is {place.location}/\n"
        f"CREATE OR REPLACE ICEBERG TABLE {place.identifier[-1]}\n"
        "  EXTERNAL_VOLUME = 'my_volume' CATALOG = 'lakestream'\n"
        f"  METADATA_FILE_PATH = '{inside}';\n"
        f"SELECT * FROM {place.identifier[-1]} LIMIT 10;\n"
        f"-- Newer snapshots: ALTER ICEBERG TABLE {place.identifier[-1]} REFRESH '<metadata file>';"
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


def _shown(properties: Mapping[str, str]) -> dict[str, str]:
    """Without secrets, which may be values of their own or within a URL."""
    return {
        key: DOTS
        if any(secret in key.lower() for secret in _SECRETS)
        else _PASSWORD.sub(rf"\1{DOTS}@", value)
        for key, value in properties.items()
    }
