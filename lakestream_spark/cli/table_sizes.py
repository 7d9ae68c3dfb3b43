"""How much lies in the store for the tables of topics.

What always holds: one odd table is its own topic's sentence; a catalog that does not answer is
asked once, and keeps no topic from being shown.
"""

import asyncio
from statistics import median

from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.cli.topic_status import TableSize
from lakestream_spark.core.errors import LakestreamError, Transient
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.foreign import commit_id_of
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.outage import asking
from lakestream_spark.table.places import relative
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.table.upkeep.folder import TableFolder


class TableSizes:
    """The tables of one catalog, which is opened when the first is asked for."""

    def __init__(self, spec: CatalogSpec) -> None:
        self._spec = spec
        self._catalog: StreamCatalog | None = None
        self.trouble: Transient | None = None
        """Why nothing more is known since then."""

    async def of(self, topic: Topic) -> tuple[TableSize | None, tuple[str, ...]]:
        """The size, or None when nobody tells; and why the table cannot be looked at."""
        if self.trouble is not None:
            return None, ()
        try:
            return await asyncio.to_thread(self._of, topic), ()
        except Transient as trouble:
            self.trouble = trouble
            return None, ()
        except LakestreamError as error:
            return TableSize(), (f"the table cannot be looked at: {error}",)

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()

    def _of(self, topic: Topic) -> TableSize:
        if self._catalog is None:
            self._catalog = StreamCatalog.open(self._spec)
        table = self._catalog.load(self._catalog.layout(topic.id, topic.name, topic.config))
        return TableSize() if table is None else _size(table)


def _files(table: Table, snapshot: Snapshot) -> dict[str, int]:
    """The sizes of the snapshot's data files by path below the table's root, whoever wrote them."""
    return {
        relative(file.file_path, table.location()) or file.file_path: file.file_size_in_bytes
        for manifest in snapshot.manifests(table.io)
        if manifest.content is ManifestContent.DATA
        for file in (entry.data_file for entry in manifest.fetch_manifest_entry(table.io))
    }


def _size(table: Table) -> TableSize:
    with asking(table.name()):
        snapshot = table.current_snapshot()
        files = {} if snapshot is None else _files(table, snapshot)
        listed = TableFolder(table).list()
    sizes = list(files.values())
    ours = [each.timestamp_ms for each in table.snapshots() if commit_id_of(each) is not None]
    return TableSize(
        files=len(sizes),
        bytes=sum(sizes),
        median_bytes=int(median(sizes)) if sizes else 0,
        retained_bytes=sum(
            size for path, size in listed.items() if path.endswith(".parquet") and path not in files
        ),
        last_commit_ms=max(ours, default=None),
    )
