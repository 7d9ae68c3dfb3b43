"""The catalog that pyiceberg opens, as Spark must be told to open the same one."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from sqlalchemy.engine import URL, make_url

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.table.spec import CatalogSpec

S3_FILE_IO: Final = "org.apache.iceberg.aws.s3.S3FileIO"
_ONLY_PYICEBERG: Final = ("py-io-impl", "py-catalog-impl")
# Seconds. Without them the driver waits for ever for a database that hangs.
_BOUNDED: Final = {"jdbc.connectTimeout": "10", "jdbc.socketTimeout": "60"}


def catalog_conf(catalog: CatalogSpec) -> dict[str, str]:
    """The settings of a Spark session that opens the catalog by its own name."""
    own = {"warehouse": catalog.warehouse, **_translate(catalog.properties)}
    if is_on_s3(catalog):
        own = _for_s3(own)
    prefix = f"spark.sql.catalog.{catalog.name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in own.items()},
    }


def is_on_s3(catalog: CatalogSpec) -> bool:
    """Whether the tables lie where Spark needs more jars than it has."""
    return catalog.warehouse.startswith(("s3://", "s3a://"))


def _for_s3(own: dict[str, str]) -> dict[str, str]:
    """As Iceberg's Java calls what pyiceberg is told; what is said already stays."""
    told = dict(own)
    if region := told.pop("s3.region", None):
        told.setdefault("client.region", region)
    if "s3.endpoint" in told:
        # A server of one's own has no name for each bucket.
        told.setdefault("s3.path-style-access", "true")
    if told.get("type") == "jdbc":
        told.setdefault("io-impl", S3_FILE_IO)
    return told


def _translate(properties: Mapping[str, str]) -> dict[str, str]:
    shared = {key: value for key, value in properties.items() if key not in _ONLY_PYICEBERG}
    if shared.get("type") != "sql":
        return shared
    uri = shared.pop("uri")
    # pyiceberg's tables are of this version; the older one lacks a column.
    return {**_jdbc(make_url(uri)), **shared, "type": "jdbc", "jdbc.schema-version": "V1"}


def _jdbc(url: URL) -> dict[str, str]:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return {"uri": f"jdbc:sqlite:{url.database}"}
    if backend != "postgresql":
        raise Misconfigured("Spark opens an SQL catalog on SQLite or PostgreSQL", backend=backend)
    if not url.host:
        raise Misconfigured("Spark reaches PostgreSQL by TCP only: name a host in catalog.uri")
    place = f"jdbc:postgresql://{url.host}:{url.port or 5432}/{url.database}"
    options = _options(url)
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    return {
        "uri": f"{place}?{urlencode(options)}" if options else place,
        **_BOUNDED,
        **{key: value for key, value in login.items() if value},
    }


def _options(url: URL) -> dict[str, str]:
    """The query of the URL by the names that the JDBC driver has for it."""
    query = {key: value for key, value in url.query.items() if isinstance(value, str)}
    path = query.pop("search_path", None)
    _, _, option = query.pop("options", "").partition("-csearch_path=")
    schema = path or option
    return {**query, **({"currentSchema": schema} if schema else {})}
