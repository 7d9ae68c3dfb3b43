"""How engines are told to reach the store that holds the tables: as pyiceberg is told, in the words
of each.

What always holds: no secret is shown; where one is needed, dots stand for it.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from lakestream_spark.cli.quoting import text
from lakestream_spark.cli.secrecy import DOTS
from lakestream_spark.table.spec import CatalogSpec

_S3: Final = ("s3", "s3a", "s3n")
_GCS: Final = ("gs", "gcs")
_AZURE: Final = ("abfs", "abfss", "az", "wasb", "wasbs")


def duckdb_secret(catalog: CatalogSpec) -> list[str]:
    """The statements before a query; none for files of this machine."""
    scheme, own = _scheme(catalog), catalog.properties
    if scheme in _S3:
        return _duckdb_s3(own)
    if scheme in _GCS:
        # DuckDB takes the HMAC keys of a bucket only.
        secret = f"CREATE SECRET (TYPE gcs, KEY_ID '{DOTS}', SECRET '{DOTS}');"
        return ["INSTALL httpfs; LOAD httpfs;", secret]
    if scheme in _AZURE:
        account = text(_azure_account(catalog))
        secret = f"CREATE SECRET (TYPE azure, PROVIDER credential_chain, ACCOUNT_NAME {account});"
        return ["INSTALL azure; LOAD azure;", secret]
    return []


def _duckdb_s3(own: Mapping[str, str]) -> list[str]:
    loaded = ["INSTALL httpfs; LOAD httpfs;"]
    if "s3.access-key-id" in own:
        parts = [f"KEY_ID {text(own['s3.access-key-id'])}", f"SECRET '{DOTS}'"]
        if "s3.session-token" in own:
            parts.append(f"SESSION_TOKEN '{DOTS}'")
    else:
        loaded = ["INSTALL httpfs; LOAD httpfs; INSTALL aws; LOAD aws;"]
        parts = ["PROVIDER credential_chain"]
    if region := _region(own):
        parts.append(f"REGION {text(region)}")
    if endpoint := own.get("s3.endpoint"):
        url = urlsplit(endpoint)
        style = "vhost" if _has_hosts(own) else "path"
        ssl = "false" if url.scheme == "http" else "true"
        parts += [f"ENDPOINT {text(url.netloc)}", f"URL_STYLE '{style}'", f"USE_SSL {ssl}"]
    return [*loaded, f"CREATE SECRET (TYPE s3, {', '.join(parts)});"]


def trino_files(catalog: CatalogSpec) -> list[str]:
    """The lines of a catalog's properties that open its files."""
    scheme, own = _scheme(catalog), catalog.properties
    if scheme in _GCS:
        return ["fs.native-gcs.enabled=true"]
    if scheme in _AZURE:
        return ["fs.native-azure.enabled=true"]
    if scheme not in _S3:
        return []
    lines = ["fs.native-s3.enabled=true"]
    if endpoint := own.get("s3.endpoint"):
        lines += [
            f"s3.endpoint={endpoint}",
            f"s3.path-style-access={'false' if _has_hosts(own) else 'true'}",
        ]
    if region := _region(own):
        lines.append(f"s3.region={region}")
    if key := own.get("s3.access-key-id"):
        lines += [f"s3.aws-access-key={key}", f"s3.aws-secret-key={DOTS}"]
    return lines


def _scheme(catalog: CatalogSpec) -> str:
    return catalog.warehouse.partition("://")[0]


def _region(own: Mapping[str, str]) -> str | None:
    return own.get("s3.region") or own.get("client.region")


def _has_hosts(own: Mapping[str, str]) -> bool:
    """Whether a server of one's own has a name for each bucket; few have."""
    return own.get("s3.force-virtual-addressing", "").lower() == "true"


def _azure_account(catalog: CatalogSpec) -> str:
    named = catalog.properties.get("adls.account-name")
    host = urlsplit(catalog.warehouse).hostname if "@" in catalog.warehouse else None
    return named or (host or DOTS).partition(".")[0] or DOTS
