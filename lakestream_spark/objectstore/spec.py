"""A store as a value, so that every process of an installation opens the same one."""

from dataclasses import dataclass, field

from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.options import StoreOptions
from lakestream_spark.objectstore.retrying import Retrying
from lakestream_spark.objectstore.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """Where a store is and how to reach it."""

    url: str
    options: StoreOptions = field(default_factory=StoreOptions)

    def open(self) -> ObjectStore:
        """The store, with transient errors retried."""
        return Retrying(open_store(self.url, self.options))
