"""The driver's side of a micro-batch: hold the leases, let the tasks run, commit topic by topic.

What always holds: leases are held before the tasks run; one topic's failed commit does not fail the
others, and what it did not move is part of the next plan.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple, Self
from uuid import UUID, uuid4

from pyspark.sql import DataFrame

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.plan import Ranges, pending
from lakestream_spark.table.commit import TableCommitter, lease_name
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog

_LEASE_SESSION_S: Final = 10.0
_log: Final = logging.getLogger(__name__)


class TaskResult(NamedTuple):
    """What a task says about the slice it moved."""

    plan: int
    range: PlannedRange
    file: DataFile


class CompactDriver:
    """Commits what tasks wrote; one per running query."""

    def __init__(self, metadata: Metadata, catalog: StreamCatalog, loop: BackgroundLoop) -> None:
        clock = SystemClock()
        self._metadata = metadata
        self._catalog = catalog
        self._loop = loop
        self._holder = f"compact-{uuid4()}"
        self._leases: dict[TopicId, Lease] = {}
        self._committer = TableCommitter(metadata.tables, catalog, clock=clock, random=Random())

    @classmethod
    def open(cls, metadata_url: str, catalog: CatalogSpec, loop: BackgroundLoop) -> Self:
        metadata = loop.run(open_metadata(metadata_url, clock=SystemClock()))
        return cls(metadata, StreamCatalog.open(catalog), loop)

    def close(self) -> None:
        self._loop.run(self._release())
        self._catalog.close()

    def pending(self) -> Ranges:
        return self._loop.run(pending(self._metadata))

    def commit_batch(self, files: DataFrame, batch_id: int) -> None:  # noqa: ARG002
        """Spark's `foreachBatch`: collecting the few result rows is what runs the tasks."""
        self._loop.run(self._hold_leases())
        results: dict[TopicId, list[TaskResult]] = defaultdict(list)
        for row in files.collect():
            planned = PlannedRange(row.partition, row.first, row.next)
            result = TaskResult(row.plan, planned, DataFile.from_json(row.file))
            results[TopicId(UUID(row.topic_id))].append(result)
        for topic_id, own in results.items():
            self._loop.run(self._commit(topic_id, own))

    async def _hold_leases(self) -> None:
        """Of every topic with work that nobody else holds; then settle what others left."""
        for topic_id in await pending(self._metadata):
            lease = await self._metadata.leases.try_acquire(
                lease_name(topic_id), self._holder, _LEASE_SESSION_S
            )
            if lease is None:
                self._leases.pop(topic_id, None)
                continue
            self._leases[topic_id] = lease
            await self._committer.recover(lease, await self._metadata.topics.get_by_id(topic_id))

    async def _commit(self, topic_id: TopicId, results: Sequence[TaskResult]) -> None:
        lease = self._leases.get(topic_id)
        if lease is None:
            return
        try:
            await self._committer.commit(
                lease,
                await self._metadata.topics.get_by_id(topic_id),
                results[0].plan,
                [result.range for result in results],
                [result.file for result in results],
            )
        except LakestreamError:
            self._leases.pop(topic_id)
            _log.exception("topic %s was not committed; the next plan has its records", topic_id)

    async def _release(self) -> None:
        for lease in self._leases.values():
            await self._metadata.leases.release(lease)
        await self._metadata.close()
