"""Which catalog holds the tables: a value that is made without loading what opens it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lakestream_spark.table.places import canonical

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO

_SEARCH_PATH: Final = re.compile(r"([?&])search_path=([^&]*)")
REST_CATALOG: Final = "lakestream_spark.table.rest.BoundedRestCatalog"
SQL_CATALOG: Final = "lakestream_spark.table.sql.BoundedSqlCatalog"
_BY_PSYCOPG2: Final = ("postgresql://", "postgresql+psycopg2://")
_RACES: Final = 10
_DUPLICATES: Final = {"42P07", "42710", "23505"}
"""What PostgreSQL says of a table that exists: the table itself, its type, or that one's row."""
SYNCED_IO: Final = "lakestream_spark.table.synced_io.SyncedFileIO"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSpec:
    """Which catalog, as pyiceberg opens it; every process of an installation uses the same."""

    name: str
    warehouse: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open(self) -> "Catalog":
        # Here and not above: a broker carries this value and opens it when a table is first read.
        from pyiceberg.catalog import load_catalog

        own = {**self._with_io(), "warehouse": self.warehouse}
        bounded = _bounded(own)
        if bounded is not None:
            own.pop("type", None)
            own["py-catalog-impl"] = bounded
        for _ in range(_RACES):
            try:
                return load_catalog(self.name, **own)
            except Exception as error:
                if not _lost_the_race(error):
                    raise
        return load_catalog(self.name, **own)

    def file_io(self) -> "FileIO":
        """What reads and writes the tables' files."""
        from pyiceberg.io import load_file_io

        return load_file_io(self._with_io(), self.warehouse)

    def _with_io(self) -> dict[str, str]:
        """The properties, with file access that syncs where the warehouse is a local disk."""
        own = dict(self.properties)
        if own.get("uri", "").startswith("postgresql"):
            own["uri"] = _for_libpq(own["uri"])
        if canonical(self.warehouse).startswith("/"):
            return {"py-io-impl": SYNCED_IO, **own}
        return own


def _bounded(properties: Mapping[str, str]) -> str | None:
    """The kind of catalog that waits for a bounded time, where pyiceberg's own waits for ever."""
    if "py-catalog-impl" in properties:
        return None
    kind = properties.get("type")
    if kind == "rest":
        return REST_CATALOG
    is_postgres = properties.get("uri", "").startswith(_BY_PSYCOPG2)
    return SQL_CATALOG if is_postgres and kind in (None, "sql") else None


def _lost_the_race(error: Exception) -> bool:
    """Whether another made the SQL catalog's tables between the look for them and the making."""
    from sqlalchemy.exc import DBAPIError

    if not isinstance(error, DBAPIError):
        return False
    code = getattr(error.orig, "pgcode", None)
    return code in _DUPLICATES or (code is None and "already exists" in str(error.orig))


def _for_libpq(uri: str) -> str:
    """The URL of the metadata store may name a schema, which libpq takes as an option only."""
    return _SEARCH_PATH.sub(r"\1options=-csearch_path%3D\2", uri)
