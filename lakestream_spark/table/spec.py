"""Which catalog holds the tables: a value that is made without loading what opens it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSpec:
    """Which catalog, as pyiceberg opens it; every process of an installation uses the same."""

    name: str
    warehouse: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open(self) -> "Catalog":
        # Here and not above: a broker carries this value and opens it when a table is first read.
        from pyiceberg.catalog import load_catalog

        return load_catalog(self.name, **{**self.properties, "warehouse": self.warehouse})

    def file_io(self) -> "FileIO":
        """What reads and writes the tables' files."""
        from pyiceberg.io import load_file_io

        return load_file_io(dict(self.properties), self.warehouse)
