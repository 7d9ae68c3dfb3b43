"""Settings that follow from others, so that `data` alone is enough to start.

With a folder everything is embedded under it. With a URL the WAL and the tables lie under it, and
the metadata store must be named, because no SQL database lives in an object store.
"""

from collections.abc import Mapping
from pathlib import Path
from socket import gethostname
from typing import Any
from urllib.parse import unquote

from lakestream_spark.settings.tree import KEYS

RULES: dict[str, str] = {
    "metadata.url": "sqlite:///{data}/metadata.db",
    "store.url": "file://{data}",
    "wal.latency.url": "the value of store.url",
    "broker.advertised_host": "broker.host, or the name of this host if that is any address",
    "catalog.uri": "sqlite:///{data}/catalog.db, or the database of metadata.url",
    "catalog.warehouse": "file://{data}/warehouse",
}
"""What each derived key follows from, as shown in the generated settings file."""
_ANY_ADDRESS = ("", "0.0.0.0", "::")


def derived_values(given: Mapping[str, Any]) -> dict[str, str]:
    """The values that follow from those given; a key that cannot be derived is left out."""

    def chosen(key: str) -> str | None:
        section, _, name = key.rpartition(".")
        table = given.get(section, {}) if section else given
        value = table.get(name, KEYS[key].field.default)
        return value if isinstance(value, str) else None

    values = _under(str(given.get("data", KEYS["data"].field.default)))
    metadata = chosen("metadata.url") or values.get("metadata.url", "")
    if metadata.startswith("postgres"):
        values["catalog.uri"] = "postgresql+psycopg2://" + metadata.partition("://")[2]
    values["wal.latency.url"] = chosen("store.url") or values["store.url"]
    host = chosen("broker.host") or ""
    values["broker.advertised_host"] = gethostname() if host in _ANY_ADDRESS else host
    return values


def _under(data: str) -> dict[str, str]:
    """The places under `data`."""
    scheme, separator, rest = data.partition("://")
    if separator and scheme != "file":
        root = data.rstrip("/")
        return {"store.url": root, "catalog.warehouse": f"{root}/warehouse"}
    folder = Path(unquote(rest) if separator else data).expanduser().resolve()
    return {
        "metadata.url": f"sqlite:///{folder}/metadata.db",
        "store.url": folder.as_uri(),
        "catalog.uri": f"sqlite:///{folder}/catalog.db",
        # Not quoted as a URL: Iceberg takes what follows file:// as the path.
        "catalog.warehouse": f"file://{folder}/warehouse",
    }
