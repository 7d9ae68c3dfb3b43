"""A broker of ours whose records can be moved into their tables, and out of them."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.topic_config.lakestream import NAMESPACE
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import TOPIC_NAME_PROPERTY
from tests.compat.clusters import Cluster
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.ingress_process import ingress
from tests.support.sparkless import SparklessCompaction

QUICK_FLUSH: Final = ("--set", "wal.cost.flush_interval_ms=10")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """What is sent to the cluster lies under the folder."""

    cluster: Cluster
    folder: Path

    async def compact(self, topic: str) -> None:
        """Afterwards no WAL has a record of the topic."""
        await asyncio.to_thread(self._drain)
        metadata = await open_metadata(metadata_url(self.folder), clock=SystemClock())
        found = await metadata.topics.get(topic)
        for ends in (await metadata.tables.ends(found.id)).values():
            assert ends.table_end == ends.high_watermark
        await metadata.close()

    def erase(self, topic: str, offsets: Sequence[int], partition: int = 0) -> None:
        """As any engine may: rows leave the table."""
        with closing(StreamCatalog.open(catalog_spec(self.folder))) as tables:
            (table,) = (
                found
                for name in tables._catalog.list_tables(NAMESPACE)
                if (found := tables._catalog.load_table(name)).properties[TOPIC_NAME_PROPERTY]
                == topic
            )
            gone = ", ".join(map(str, offsets))
            table.delete(f"__partition = {partition} AND __offset IN ({gone})")

    def _drain(self) -> None:
        compaction = SparklessCompaction(self.folder)
        compaction.run_until_drained()
        compaction.close()


@contextmanager
def running_lake(folder: Path) -> Iterator[Lake]:
    with ingress(folder, *QUICK_FLUSH) as process:
        (listening,) = process.ready()
        yield Lake(cluster=Cluster(name="lakestream", bootstrap=listening.kafka), folder=folder)
        assert process.stop() == 0, "".join(process.log)
