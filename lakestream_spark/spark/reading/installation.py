"""An installation as a value, and opened: its metadata store, its WAL stores and its catalog.

What always holds: of each table there is one plan for all its partitions, for as long as the
installation is open; a new snapshot adds what is new in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.reader import WalReader

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakestream_spark.history.plan import Plan
    from lakestream_spark.history.reader import TableReader
    from lakestream_spark.table.iceberg import StreamCatalog

_SEARCH_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where everything lies; the same value in every process. WAL stores are by profile."""

    metadata_url: str = field(repr=False)
    stores: Mapping[str, StoreSpec]
    catalog: CatalogSpec


class Opened:
    """An installation to read from, until it is closed. The catalog is opened when it is needed."""

    def __init__(self, installation: Installation) -> None:
        self.loop = BackgroundLoop()
        try:
            self.metadata: Metadata = self.loop.run(
                open_metadata(installation.metadata_url, clock=SystemClock())
            )
        except BaseException:
            self.loop.close()
            raise
        stores = {profile: spec.open() for profile, spec in installation.stores.items()}
        self.wal = WalReader(self.metadata.extents, stores, WalCache(0))
        self._catalog_spec = installation.catalog
        self._catalog: StreamCatalog | None = None
        self._reader: TableReader | None = None

    def lawful_table(self, topic: Topic) -> "Table | None":
        """The topic's table as of its newest lawful snapshot, with the ends that go with it."""
        catalog = self._tables()
        return catalog.load_lawful(catalog.layout(topic.id, topic.name, topic.config))

    def table(self, topic: Topic) -> "Table | None":
        """The topic's table with all its snapshots."""
        catalog = self._tables()
        return catalog.load(catalog.layout(topic.id, topic.name, topic.config))

    def in_history(
        self, topic: Topic, partition: int, timestamp_ms: int, offsets: range
    ) -> TimestampedOffset | None:
        """The first row of the table among these offsets that is at or after the time."""
        # Here and not above: as in `_tables`.
        from lakestream_spark.history.messages import Question

        question = Question.at_time(topic, partition, timestamp_ms, offsets)
        return self._history().at_time(question)

    def plan(self, topic: Topic) -> "Plan":
        """The files of the topic's table as it is now; raises `Unavailable` when it has none."""
        return self._history().newest_plan(topic)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._catalog is not None:
            self._catalog.close()
        self.loop.run(self.metadata.close())
        self.loop.close()

    def _tables(self) -> "StreamCatalog":
        if self._catalog is None:
            # Here and not above: pyiceberg takes a second to load, and a tail needs no table.
            from lakestream_spark.table.iceberg import StreamCatalog

            self._catalog = StreamCatalog.open(self._catalog_spec)
        return self._catalog

    def _history(self) -> "TableReader":
        if self._reader is None:
            # Here and not above: as in `_tables`.
            from lakestream_spark.history.reader import TableReader

            self._reader = TableReader(self._catalog_spec, _SEARCH_BYTES)
        return self._reader
