"""What a task reads: the rows of its pieces, from the WAL or from the table.

    an offset ─► at or above the table end: its WAL batches, decoded
              └► below it: rows of the Parquet files of the newest lawful snapshot

What always holds: where an offset lies is looked up when it is read, so a piece may change from the
WAL into the table under the reader; rows come in offset order; an offset is left out only if it has
no row below the ends of the snapshot that is read, or is of a batch that cannot be decoded. What is
decoded is handed on before more is, so memory does not depend on how far batches decompress.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakestream_spark.core.errors import Corrupt, OffsetOutOfRange, Unavailable
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.core.logs import event
from lakestream_spark.history.plan import Plan
from lakestream_spark.history.plans import Plans, TopicPlan
from lakestream_spark.history.shelf import Shelf
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.spark.reading.columns import Shape, batches, table_shape
from lakestream_spark.spark.reading.installation import Installation, Opened
from lakestream_spark.spark.reading.pieces import Piece
from lakestream_spark.table.arrow_rows import in_order, rows_of
from lakestream_spark.table.columns import OFFSET

_READ_BYTES: Final = 8 * 1024 * 1024
_ONE_EXTENT: Final = 1
_OPEN_BYTES: Final = 64 * 1024 * 1024
_TRIES: Final = 4
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Reads pieces; the same value in driver and tasks."""

    installation: Installation
    shape: Shape = field(default_factory=table_shape)
    fail_on_data_loss: bool = True

    def read(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        # The offset tells which rows are the piece's, whoever wants it.
        columns = [OFFSET, *{own for own in self.shape.values() if own not in (None, OFFSET)}]
        with (
            closing(Opened(self.installation)) as opened,
            closing(Plans(self.installation.catalog)) as plans,
        ):
            source = _Source(opened, _Table(opened, plans, columns), columns)
            for piece in pieces:
                for rows in source.rows(piece, fail_on_data_loss=self.fail_on_data_loss):
                    yield from batches(rows, piece.topic, self.shape)


class _Found(NamedTuple):
    """Rows from an offset on, all there are before `next`; to be gone through once."""

    rows: Iterable[pa.Table]
    next: int


class _Source:
    """The log of one installation, as one task sees it."""

    def __init__(self, opened: Opened, table: "_Table", columns: list[str]) -> None:
        self._opened = opened
        self._table = table
        self._columns = columns

    def rows(self, piece: Piece, *, fail_on_data_loss: bool) -> Iterator[pa.Table]:
        tries = 0
        while piece.first < piece.next:
            found = self._next(piece, fail_on_data_loss)
            yield from filter(len, found.rows)
            # It goes into the table between two looks once at most, and files are gone seldom.
            tries = 0 if found.next > piece.first else tries + 1
            if tries >= _TRIES:
                raise Unavailable("an offset is neither in the WAL nor in the table", **_of(piece))
            piece = piece._replace(first=found.next)

    def _next(self, piece: Piece, fail_on_data_loss: bool) -> _Found:
        in_table = self._is_in_table(piece)
        try:
            return self._table.next(piece) if in_table else self._some_of_wal(piece)
        except Corrupt as error:
            if fail_on_data_loss:
                raise
            event(_log, logging.WARNING, "records are lost and left out", error=error)
            after = self._table.after_file if in_table else self._after_extent
            return _Found((), after(piece))

    def _is_in_table(self, piece: Piece) -> bool:
        if piece.first < self._table.known_end(piece):
            return True
        borders = self._opened.loop.run(self._opened.metadata.tables.ends(piece.topic_id))
        return piece.first < borders[piece.partition].table_end

    def _some_of_wal(self, piece: Piece) -> _Found:
        try:
            return self._from_wal(piece, _READ_BYTES)
        except Corrupt:
            # What is lost may lie behind the piece, or behind what can still be read of it.
            return self._from_wal(piece, _ONE_EXTENT)

    def _from_wal(self, piece: Piece, max_bytes: int) -> _Found:
        place = TopicPartition(piece.topic_id, piece.partition)
        try:
            read = self._opened.loop.run(
                self._opened.wal.read(place, piece.first, max_bytes, for_table=True)
            )
        except OffsetOutOfRange:
            return _Found((), piece.first)  # The table has it by now.
        following = min(read.next_offset, piece.next)
        return _Found(self._decoded(piece, Chunk(read.data), following), following)

    def _decoded(self, piece: Piece, chunk: Chunk, following: int) -> Iterator[pa.Table]:
        for each in rows_of(piece.partition, [chunk]):
            yield _between(each.table.select(self._columns), piece.first, following)

    def _after_extent(self, piece: Piece) -> int:
        """The end of the extent that cannot be read, or of the piece when there is none."""
        place = TopicPartition(piece.topic_id, piece.partition)
        found = self._opened.loop.run(self._opened.metadata.extents.locate(place, piece.first, 1))
        return min(piece.next, found.extents[0].next_offset) if found.extents else piece.next


class _Table:
    """The tables of the topics, planned when they are first read and anew when that is too old."""

    def __init__(self, opened: Opened, plans: Plans, columns: list[str]) -> None:
        self._opened = opened
        self._plans = plans
        self._columns = columns
        self._shelf = Shelf(_OPEN_BYTES)
        self._topics: dict[TopicId, TopicPlan] = {}
        self._plan: dict[TopicId, Plan] = {}

    def known_end(self, piece: Piece) -> int:
        """How far the plan goes that is there already."""
        plan = self._plan.get(piece.topic_id)
        return 0 if plan is None else plan.end(piece.partition)

    def next(self, piece: Piece) -> _Found:
        """The next block of rows; none and the same offset when there has to be a newer plan.

        Raises `Corrupt` when the file is lost or damaged.
        """
        plan = self._plan.get(piece.topic_id)
        if plan is None or piece.first >= plan.end(piece.partition):
            plan = self._newer(piece)
        end = min(piece.next, plan.end(piece.partition))
        if piece.first >= end:
            return _Found((), piece.first)
        try:
            return self._block(plan, piece, end)
        except FileNotFoundError as error:
            if self._files(self._newer(piece), piece) == self._files(plan, piece):
                sentence = f"data loss: a file of the table is not there: {error}"
                raise Corrupt(sentence, **_of(piece)) from error
            # The snapshot has expired since it was planned: the newest one has its rows.
            event(_log, logging.INFO, "a file of the table is gone", error=error)
            return _Found((), piece.first)

    def after_file(self, piece: Piece) -> int:
        """The end of the file that cannot be read, or of the piece when there is none."""
        span = self._plan[piece.topic_id].at_or_after(piece.partition, piece.first)
        return piece.next if span is None else min(piece.next, span.last + 1)

    def _files(self, plan: Plan, piece: Piece) -> set[str]:
        """Where the plan looks for the first offset of the piece."""
        span = plan.at_or_after(piece.partition, piece.first)
        return set() if span is None else {file.path for file in span.files}

    def _block(self, plan: Plan, piece: Piece, end: int) -> _Found:
        found = self._shelf.at_or_after(plan, piece.partition, piece.first)
        if found is None:
            return _Found((), end)
        number = found.section.find(piece.first)
        if number is None:
            return _Found((), min(end, found.section.last + 1))
        rows, first, after = found.section.load(number)
        following = min(end, after)
        if first >= end:
            return _Found((), end)
        own = _between(in_order(rows).select(self._columns), piece.first, following)
        return _Found((own,), following)

    def _newer(self, piece: Piece) -> Plan:
        if piece.topic_id not in self._topics:
            topic = self._opened.loop.run(self._opened.metadata.topics.get_by_id(piece.topic_id))
            self._topics[topic.id] = self._plans.of(topic.id, topic.name, dict(topic.config))
        plan = self._plan[piece.topic_id] = self._topics[piece.topic_id].newer()
        return plan


def _between(rows: pa.Table, first: int, following: int) -> pa.Table:
    """Batches and blocks are read whole: the first and the last may reach beyond the piece."""
    offsets = rows[OFFSET]
    if len(rows) == 0 or (offsets[0].as_py() >= first and offsets[-1].as_py() < following):
        return rows
    return rows.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, following)))


def _of(piece: Piece) -> dict[str, object]:
    return {"topic": piece.topic, "partition": piece.partition, "offset": piece.first}
