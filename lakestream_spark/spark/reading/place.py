"""From where a read shall begin or end to offsets of partitions, as the log is now."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from lakestream_spark.core.errors import Misconfigured, NotFound, UnknownTopic
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.reading.installation import Opened
from lakestream_spark.spark.reading.options import (
    AtSnapshot,
    AtTime,
    Edge,
    Exact,
    Place,
    ReadOptions,
)
from lakestream_spark.spark.reading.position import TopicPosition
from lakestream_spark.wal.ports import PartitionEnds


class TopicLog(NamedTuple):
    """A topic and the borders of its partitions at one moment."""

    topic: Topic
    borders: Mapping[int, PartitionEnds]

    def position(self, offset_of: Callable[[int, PartitionEnds], int]) -> TopicPosition:
        offsets = {
            partition: offset_of(partition, borders) for partition, borders in self.borders.items()
        }
        return TopicPosition(self.topic.id, offsets)


Logs = Mapping[str, TopicLog]


def logs(opened: Opened, options: ReadOptions) -> dict[str, TopicLog]:
    """The topics that are to be read; raises `UnknownTopic` for a name that does not exist."""
    found = known_logs(opened, options)
    for name in options.topics:
        if name not in found:
            raise UnknownTopic("no such topic", topic=name)
    return found


def known_logs(opened: Opened, options: ReadOptions) -> dict[str, TopicLog]:
    """Those of them that exist: one may be deleted while it is read."""
    metadata, run = opened.metadata, opened.loop.run
    pattern = (
        "|".join(map(re.escape, options.topics)) if options.pattern is None else options.pattern
    )
    wanted = re.compile(pattern)
    found: dict[str, TopicLog] = {}
    for topic in run(metadata.topics.list()):
        if wanted.fullmatch(topic.name):
            with suppress(UnknownTopic):  # Deleted between the two looks.
                found[topic.name] = TopicLog(topic, run(metadata.tables.ends(topic.id)))
    return found


def latest(of: Logs) -> dict[str, TopicPosition]:
    """The ends of what is acknowledged and, should it be part of a transaction, decided."""
    return {name: log.position(lambda _, ends: ends.last_stable) for name, log in of.items()}


def resolve(opened: Opened, place: Place, of: Logs) -> dict[str, TopicPosition]:
    """The offsets that a place means."""
    if isinstance(place, Exact):
        _check_names(place, of)
        return {name: _exact(place.offsets[name], log) for name, log in of.items()}
    if isinstance(place, AtTime):
        return {name: _at_time(opened, place, log) for name, log in of.items()}
    if isinstance(place, AtSnapshot):
        return {name: _at_snapshot(opened, place, log) for name, log in of.items()}
    return {name: log.position(lambda _, ends: _edge(place, ends)) for name, log in of.items()}


def _edge(edge: Edge, ends: PartitionEnds) -> int:
    return ends.log_start if edge is Edge.EARLIEST else ends.last_stable


def _check_names(place: Exact, of: Logs) -> None:
    unlike = set(place.offsets) ^ set(of)
    if unlike:
        raise Misconfigured(
            "offsets must name exactly the topics that are read", topics=sorted(unlike)
        )


def _exact(own: Mapping[int, int | Edge], log: TopicLog) -> TopicPosition:
    unlike = set(own) ^ set(log.borders)
    if unlike:
        raise Misconfigured(
            "offsets must name exactly the partitions of the topic",
            topic=log.topic.name,
            partitions=sorted(unlike),
        )

    def offset(partition: int, ends: PartitionEnds) -> int:
        wanted = own[partition]
        return _edge(wanted, ends) if isinstance(wanted, Edge) else wanted

    return log.position(offset)


def _at_snapshot(opened: Opened, place: AtSnapshot, log: TopicLog) -> TopicPosition:
    # Here and not above: see `Opened`.
    from lakestream_spark.table.snapshots import ends_of_snapshot, snapshot_named

    table = opened.table(log.topic)
    if table is None:
        raise NotFound("the topic has no table yet, so no snapshot", topic=log.topic.name)
    ends = ends_of_snapshot(table, snapshot_named(table, place.name)).ends
    return log.position(lambda partition, _: ends.get(partition, 0))


def _at_time(opened: Opened, place: AtTime, log: TopicLog) -> TopicPosition:
    """Partition by partition in the table, then in the WAL, then in what went past both."""
    in_table = _InTable(opened, place, log.topic)
    found = {
        partition: in_table.first(partition, range(ends.log_start, ends.table_end))
        for partition, ends in log.borders.items()
    }
    missing = [partition for partition, first in found.items() if first is None]
    found |= {partition: _in_wal(opened, place, log, partition) for partition in missing}
    # Once for all of them, and after the last search.
    now = opened.loop.run(opened.metadata.tables.ends(log.topic.id)) if missing else {}
    for partition in missing:
        begin = max(log.borders[partition].table_end, now[partition].log_start)
        moved = in_table.first(partition, range(begin, now[partition].table_end))
        found[partition] = moved or found[partition]

    def offset(partition: int, ends: PartitionEnds) -> int:
        first = found[partition]
        return ends.last_stable if first is None else first.offset

    return log.position(offset)


class _InTable(NamedTuple):
    """A search in a topic's table."""

    opened: Opened
    place: AtTime
    topic: Topic

    def first(self, partition: int, offsets: range) -> TimestampedOffset | None:
        if not offsets:
            return None
        return self.opened.in_history(self.topic, partition, self.place.timestamp_ms, offsets)


def _in_wal(
    opened: Opened, place: AtTime, log: TopicLog, partition: int
) -> TimestampedOffset | None:
    where = TopicPartition(log.topic.id, partition)
    return opened.loop.run(opened.wal.offset_for_timestamp(where, place.timestamp_ms))
