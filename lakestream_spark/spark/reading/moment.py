"""A topic as of one moment: a snapshot of its table, and the tail that is not in it.

    one metadata file ─► the table, pinned to a snapshot
                     └─► its ends ─► the tail: [ends, acknowledged so far)

What always holds: the halves meet at the ends of the pinned snapshot, so that each offset is in one
of them whatever is committed, merged or deleted later; the tail carries offsets only, and whoever
reads it finds WAL or Parquet then.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyiceberg.table import Table

from lakestream_spark.spark.reading.installation import Opened
from lakestream_spark.spark.reading.options import Edge, ReadOptions
from lakestream_spark.spark.reading.pieces import Piece
from lakestream_spark.spark.reading.place import latest, logs
from lakestream_spark.spark.reading.planning import Losses, tasks_between
from lakestream_spark.spark.reading.position import TopicPosition
from lakestream_spark.table.append import TableState


class Moment(NamedTuple):
    """The table, if there is one, as of its newest lawful snapshot; and tasks for the tail."""

    table: Table | None
    tail: tuple[tuple[Piece, ...], ...]


def now(opened: Opened, name: str) -> Moment:
    """The table first: what is in the snapshot is acknowledged, so the tail ends behind it."""
    topic = opened.loop.run(opened.metadata.topics.get(name))
    table = opened.lawful_table(topic)
    ends: Mapping[int, int] = {} if table is None else TableState.of(table).ends
    found = logs(opened, ReadOptions(topics=(name,), starting=Edge.LATEST))
    start = {name: TopicPosition(topic.id, ends)}
    tail = tasks_between(opened, found, start, latest(found), Losses(fail=True))
    return Moment(table, tuple(tail))
