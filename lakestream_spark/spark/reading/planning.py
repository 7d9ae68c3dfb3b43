"""From two positions to the tasks that read what lies between.

What always holds: the pieces of all tasks tile the ranges. What a stream has come to and the log
has no more is data loss: it stops the read, or is left out where the options say so. Rows that the
table has outlive the log start.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.core.logs import event
from lakestream_spark.spark.reading.installation import Opened
from lakestream_spark.spark.reading.pieces import Piece, Weight, cut, tasks_of
from lakestream_spark.spark.reading.place import Logs, TopicLog
from lakestream_spark.spark.reading.position import Position, TopicPosition, begun
from lakestream_spark.wal.ports import PartitionEnds

if TYPE_CHECKING:
    from lakestream_spark.history.plan import Plan

_log: Final = logging.getLogger(__name__)


class Losses:
    """Raises what was lost, or only writes it down."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail

    def report(self, sentence: str, **facts: object) -> None:
        if self._fail:
            raise Corrupt(
                f"{sentence}; set failOnDataLoss=false to go on without what is missing", **facts
            )
        event(_log, logging.WARNING, sentence, **facts)


def tasks_between(
    opened: Opened, of: Logs, start: Position, end: Position, losses: Losses
) -> list[tuple[Piece, ...]]:
    """Tasks that read [start, end) of every partition."""
    for name, own in start.items():
        if name not in of or of[name].topic.id != own.topic_id:
            losses.report("a topic was deleted since it was read", topic=name)
    pieces: list[Piece] = []
    for name, own in end.items():
        log = of.get(name)
        if log is None or log.topic.id != own.topic_id:
            losses.report("a topic was deleted since it was read", topic=name)
            continue
        ranges = list(_ranges(log, start, own, losses))
        pieces += _pieces(opened, log, ranges, losses)
    return tasks_of(pieces)


def _ranges(log: TopicLog, start: Position, end: TopicPosition, losses: Losses) -> Iterator[Piece]:
    topic = log.topic
    for partition, after in sorted(end.offsets.items()):
        first = begun(start, topic.name, end, partition)
        high_watermark = log.borders[partition].high_watermark
        if max(first, after) > high_watermark:
            losses.report(
                "the log ends before the offset that was asked for",
                topic=topic.name,
                partition=partition,
                offset=max(first, after),
                high_watermark=high_watermark,
            )
            after = min(after, high_watermark)
        if first < after:
            yield Piece(topic.id, topic.name, partition, first, after, 0)


def _pieces(
    opened: Opened, log: TopicLog, ranges: Sequence[Piece], losses: Losses
) -> Iterator[Piece]:
    if not ranges:
        return
    old = [each for each in ranges if each.first < log.borders[each.partition].table_end]
    files = _file_weights(opened.plan(log.topic), old) if old else {}
    sizes = opened.loop.run(opened.metadata.topics.wal_bytes([log.topic.id]))
    for whole in ranges:
        borders = log.borders[whole.partition]
        own = files.get(whole.partition, [])
        _check_beginning(whole, borders, own, losses)
        left = sizes.get(TopicPartition(log.topic.id, whole.partition), 0)
        tail = Weight(borders.table_end, borders.high_watermark, left)
        yield from cut(whole, [*own, tail])


def _check_beginning(
    whole: Piece, borders: PartitionEnds, files: Sequence[Weight], losses: Losses
) -> None:
    """Below the log start rows are gone when the table has them no more."""
    if whole.first >= min(borders.log_start, borders.table_end):
        return
    kept = min((file.first for file in files), default=borders.table_end)
    if kept > whole.first:
        losses.report(
            "records aged out before they were read",
            topic=whole.topic,
            partition=whole.partition,
            offset=whole.first,
            first_kept=min(kept, borders.log_start),
        )


def _file_weights(plan: "Plan", old: Sequence[Piece]) -> Mapping[int, list[Weight]]:
    """The files of the table that may hold rows of the ranges, by partition."""
    return {
        each.partition: [
            Weight(file.offsets.first, file.offsets.last + 1, file.size, file.row_groups)
            for file in plan.files_between(each.partition, each.first, each.next)
        ]
        for each in old
    }
