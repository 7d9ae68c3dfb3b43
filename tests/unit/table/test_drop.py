"""The table of a deleted topic that is to be dropped, beside a batch that is still under way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Unavailable, UnknownTopic
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend, Verdict
from lakestream_spark.table.commit import TableCommitter, lease_name
from lakestream_spark.table.drop import GRACE_MS, settle_deleted
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.in_step import NOTHING_KNOWN, Known
from lakestream_spark.table.layout import TableLayout
from tests.support.clock import SimulatedClock
from tests.support.embedded import metadata_url
from tests.support.tables import TableFiles, acknowledge, rows

VALUES = [b"a", b"b"]
DROP = {"lakestream.table.on.delete": "drop"}


class Place(NamedTuple):
    """A topic whose table is to be dropped with it."""

    metadata: Metadata
    clock: SimulatedClock
    topic: Topic
    files: TableFiles

    @property
    def folder(self) -> Path:
        return Path(self.files.layout.location.removeprefix("file://"))


@pytest.fixture
async def place(tmp_path: Path, tables: StreamCatalog) -> AsyncIterator[Place]:
    clock = SimulatedClock(wall_ms=SystemClock().wall_ms())
    metadata = await open_metadata(metadata_url(tmp_path), clock=clock)
    topic = await metadata.topics.create("orders", config=DROP)
    await acknowledge(metadata, topic, VALUES)
    yield Place(metadata, clock, topic, TableFiles.of(tmp_path, tables, topic))
    await metadata.close()


async def commit(place: Place, catalog: StreamCatalog) -> None:
    lease = await place.metadata.leases.try_acquire(lease_name(place.topic.id), "one", 1.0)
    assert lease is not None
    committer = TableCommitter(
        place.metadata.tables, catalog, clock=SystemClock(), random=Random(1)
    )
    file = place.files.write(rows(0, VALUES))
    await committer.commit(lease, place.topic, 1, [PlannedRange(0, 0, len(VALUES))], [file])


async def test_what_a_batch_wrote_after_the_drop_goes_at_a_later_round(
    place: Place, tables: StreamCatalog
) -> None:
    await commit(place, tables)
    await place.metadata.topics.delete(place.topic.id)
    assert await settle_deleted(place.metadata.topics, tables) == 0
    assert not place.folder.exists()
    place.files.write(rows(2, VALUES))
    await place.clock.advance(GRACE_MS / 1000 + 1)
    assert await settle_deleted(place.metadata.topics, tables) == 1
    assert not place.folder.exists()
    assert await settle_deleted(place.metadata.topics, tables) == 0


class DeletedMeanwhile(StreamCatalog):
    """The topic is deleted and its table dropped while the committer asks the catalog."""

    delete: Callable[[], Coroutine[None, None, None]]
    fails_first = False
    tries = 0

    def append(
        self, layout: TableLayout, append: TableAppend, known: Known = NOTHING_KNOWN
    ) -> Verdict:
        self.tries += 1
        if self.tries == 1:
            asyncio.run(self.delete())
            if self.fails_first:
                raise Unavailable("not now")
        return super().append(layout, append, known)


@pytest.mark.parametrize("fails_first", [False, True])
async def test_a_first_commit_leaves_no_table_of_a_topic_deleted_meanwhile(
    tmp_path: Path, place: Place, tables: StreamCatalog, fails_first: bool
) -> None:
    async def delete() -> None:
        others = await open_metadata(metadata_url(tmp_path), clock=place.clock)
        await others.topics.delete(place.topic.id)
        await settle_deleted(others.topics, tables)
        await others.close()

    catalog = DeletedMeanwhile(tables._spec, tables._catalog)
    catalog.delete, catalog.fails_first = delete, fails_first
    with pytest.raises(UnknownTopic):
        await commit(place, catalog)
    assert catalog.tries == 1
    assert tables.load(place.files.layout) is None
    assert not place.folder.exists()
