"""A topic with acknowledged records, and files of its table, without broker and Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyiceberg.io import FileIO

from lakestream_spark.core.ids import BrokerId, SegmentId, TopicPartition
from lakestream_spark.kafka.records import Record
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.partition_file import PartitionFile
from lakestream_spark.table.rows import Row, to_arrow
from lakestream_spark.wal.segment import OpenSegment
from tests.support.batches import checked, make_batch
from tests.support.embedded import catalog_spec


async def acknowledge(metadata: Metadata, topic: Topic, values: Sequence[bytes]) -> None:
    """Give the values offsets in partition 0, as a commit of a WAL segment does."""
    writer = await metadata.writers.register(BrokerId(1), "cost")
    segment = OpenSegment()
    segment.add(TopicPartition(topic.id, 0), checked(make_batch(values)))
    sealed = segment.seal(
        SegmentId(writer.broker_id, writer.broker_epoch, 1), writer.profile, created_ms=0
    )
    await metadata.sequencer.commit(sealed.stored())


def rows(first: int, values: Sequence[bytes | None]) -> list[Row]:
    """Consecutive offsets from `first` on; each record's time is its offset."""
    return [
        Row(Record(first + i, first + i, None, value), append_time=False)
        for i, value in enumerate(values)
    ]


def write_file(
    io: FileIO, layout: TableLayout, place: PlannedRange, written: Sequence[Row]
) -> DataFile:
    """One new file with the rows, which are in offset order, as a task writes it."""
    with PartitionFile(io, layout, place, uuid4()) as file:
        file.write(to_arrow(place.partition, written))
        finished = file.finish()
    assert finished is not None, "a file has rows"
    return finished


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """Writes data files of one table."""

    folder: Path
    layout: TableLayout

    @classmethod
    def of(cls, folder: Path, tables: StreamCatalog, topic: Topic) -> "TableFiles":
        return cls(folder=folder, layout=tables.layout(topic.id, topic.name))

    def write(self, written: Sequence[Row], *, partition: int = 0) -> DataFile:
        """One file that holds the rows."""
        offsets = [row.record.offset for row in written]
        place = PlannedRange(partition, min(offsets), max(offsets) + 1)
        return write_file(catalog_spec(self.folder).file_io(), self.layout, place, written)
