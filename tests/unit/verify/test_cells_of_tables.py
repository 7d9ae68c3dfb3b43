"""Tables of several cells, whose borders lie inside of files."""

from pathlib import Path
from random import Random
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.cells import CELL_OFFSETS
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.columns import (
    ARROW_SCHEMA,
    HEADERS,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TIMESTAMP_TYPE,
)
from lakestream_spark.table.commit import TableCommitter, lease_name
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.partition_file import PartitionFile
from lakestream_spark.table.upkeep import retention
from lakestream_spark.verify.certificate import Certificate
from lakestream_spark.verify.check import verify
from lakestream_spark.verify.pinned import Asked, Site
from tests.support.embedded import catalog_spec
from tests.support.metadata import header, stored
from tests.support.table_fixtures import metadata, tables, topic

__all__ = ["metadata", "tables", "topic"]

FILE_ROWS = 40_000
FILES = 4
ROWS = FILE_ROWS * FILES


def small_rows(first: int) -> pa.Table:
    """Rows with nothing but their offsets, made at once."""
    columns = {
        PARTITION: pa.array(np.zeros(FILE_ROWS, np.int32)),
        OFFSET: pa.array(np.arange(first, first + FILE_ROWS)),
        TIMESTAMP: pa.array(np.arange(first, first + FILE_ROWS) * 1000),
        TIMESTAMP_TYPE: pa.array(np.zeros(FILE_ROWS, np.int32)),
        HEADERS: pa.array([[]] * FILE_ROWS, ARROW_SCHEMA.field(HEADERS).type),
    }
    arrays = [
        columns.get(field.name, pa.nulls(FILE_ROWS, field.type)).cast(field.type)
        for field in ARROW_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)


@pytest.fixture
async def site(tmp_path: Path, metadata: Metadata, tables: StreamCatalog, topic: Topic) -> Site:
    """Files of 40,000 rows each, and nothing in the WAL."""
    writer = await metadata.writers.register(BrokerId(1), "cost")
    committer = TableCommitter(metadata.tables, tables, clock=SystemClock(), random=Random())
    lease = await metadata.leases.try_acquire(lease_name(topic.id), "test", 60.0)
    assert lease is not None
    spec, layout = catalog_spec(tmp_path), tables.layout(topic.id, topic.name)
    for number in range(FILES):
        given = (TopicPartition(topic.id, 0), [header(FILE_ROWS)])
        await metadata.sequencer.commit(stored(writer, number + 1, given))
        place = PlannedRange(0, number * FILE_ROWS, (number + 1) * FILE_ROWS)
        with PartitionFile(spec.file_io(), layout, place, uuid4()) as file:
            file.write(small_rows(place.first))
            written = file.finish()
        assert written is not None
        await committer.commit(lease, topic, 1, [place], [written])
    return Site(
        metadata=metadata,
        catalog=tables,
        spec=spec,
        stores={},
        clock=SystemClock(),
        random=Random(1),
    )


async def rows_of(site: Site, topic: Topic, sample: int = 9) -> tuple[int, Certificate]:
    certificate = await verify(site, topic.name, Asked(), sample=sample)
    return certificate.partitions[0].rows, certificate


async def test_a_sample_is_the_newest_cell_and_others(site: Site, topic: Topic) -> None:
    rows, certificate = await rows_of(site, topic, sample=2)
    assert (rows, certificate.looked.cells, certificate.looked.cells_read) == (ROWS, 3, 2)
    some = await verify(site, topic.name, Asked(first=CELL_OFFSETS, next=CELL_OFFSETS + 1))
    assert (some.partitions[0].first, some.partitions[0].rows) == (CELL_OFFSETS, CELL_OFFSETS)


async def test_rows_leave_cells_in_part_and_as_a_whole(site: Site, topic: Topic) -> None:
    layout = site.catalog.layout(topic.id, topic.name)
    table = site.catalog.load(layout)
    assert table is not None
    table.delete(f"__offset >= {CELL_OFFSETS - 5} AND __offset < {CELL_OFFSETS + 5}")
    rows, certificate = await rows_of(site, topic)
    assert rows == ROWS - 10
    (hole,) = certificate.partitions[0].holes
    assert hole.ranges == ((CELL_OFFSETS - 5, CELL_OFFSETS + 5),)

    table = site.catalog.load(layout)
    assert table is not None
    first = min(task.file.file_path for task in table.scan(f"__offset < {FILE_ROWS}").plan_files())
    relative = first.removeprefix(table.location()).lstrip("/")
    assert retention.remove(table, frozenset({relative}))
    rows, certificate = await rows_of(site, topic)
    assert rows == ROWS - 10 - FILE_ROWS
    (_, retired) = sorted(certificate.partitions[0].holes, key=lambda each: each.offsets)
    assert retired.ranges == ((0, FILE_ROWS),)
    assert retired.why.startswith("erased by lakestream (retention)")
