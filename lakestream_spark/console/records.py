"""The record browser: any offset of a partition, from the WAL or from the table.

What always holds: the record is the one that a consumer gets; where nothing is at an offset any
more, the next one in the asked direction is found, however far it is; one batch is decoded at a
time, in a thread, and it may not grow beyond a bound.
"""

import asyncio
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from lakestream_spark.console.parts import Parts
from lakestream_spark.console.shown import name, shown
from lakestream_spark.core.errors import LakestreamError, NotFound, UnknownTopic
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.kafka.batch import APPEND_TIME_FLAG, walk
from lakestream_spark.kafka.records import Record, decode_records
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.wal.ports import PartitionEnds
from lakestream_spark.wal.reader import ReadRequest

_MAX_BATCH_BYTES: Final = 64 * 1024 * 1024


class Toward(Enum):
    """Where to look on from an offset that has no record."""

    NEXT = "next"
    PREVIOUS = "previous"


class _Read(NamedTuple):
    """Whole batches, and where they came from."""

    data: bytes
    source: str
    where: str


class _Found(NamedTuple):
    record: Record
    append_time: bool
    read: _Read


class RecordBrowser:
    """Reads one record at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._decoding = asyncio.Lock()

    async def find(
        self, topic_name: str, number: int, offset: int, toward: Toward
    ) -> dict[str, Any]:
        """The record as JSON; raises `UnknownTopic`, `NotFound`, or what reading raises."""
        topic = await self._parts.metadata.topics.get(topic_name)
        ends = (await self._parts.metadata.tables.ends(topic.id)).get(number)
        if ends is None:
            last = topic.partitions - 1
            raise UnknownTopic(f"{topic.name} has partitions 0 to {last}, and no {number}")
        _check(topic, number, offset, ends)
        found = await self._search(topic, number, offset, toward, ends)
        if found is None:
            side = "after" if toward is Toward.NEXT else "before"
            raise NotFound(f"no record is left at offset {offset} or {side} it")
        return _described(topic, number, offset, ends, found)

    async def _search(
        self, topic: Topic, number: int, offset: int, toward: Toward, ends: PartitionEnds
    ) -> _Found | None:
        if toward is Toward.NEXT:
            return await self._within(topic, number, range(offset, ends.high_watermark), toward)
        return await self._last(topic, number, range(ends.log_start, offset + 1))

    async def _last(self, topic: Topic, number: int, offsets: range) -> _Found | None:
        """The last record of these offsets. Reading goes forward only, so it is closed in on:
        backwards in growing steps to any record, then by halves between that and the end."""
        first, after, step = offsets.stop, offsets.stop, 1
        found: _Found | None = None
        while found is None and first > offsets.start:
            after, first, step = first, max(offsets.start, first - step), 2 * step
            found = await self._within(topic, number, range(first, after), Toward.PREVIOUS)
        while found is not None and (first := found.record.offset + 1) < after:
            middle = (first + after) // 2
            later = await self._within(topic, number, range(middle, after), Toward.PREVIOUS)
            if later is None:
                after = middle
            found = later or found
        return found

    async def _within(
        self, topic: Topic, number: int, offsets: range, toward: Toward
    ) -> _Found | None:
        """A record of these offsets: of the first batch that has any, its first or its last."""
        at = offsets.start
        while at < offsets.stop:
            read = await self._read(topic, TopicPartition(topic.id, number), at)
            async with self._decoding:
                found, after = await asyncio.to_thread(_pick, read, offsets, toward)
            if found is not None:
                return found
            # A hole in a table is one batch without records.
            at = max(at + 1, after)
        return None

    async def _read(self, topic: Topic, partition: TopicPartition, offset: int) -> _Read:
        located = await self._parts.metadata.extents.locate(partition, offset, 1)
        (tail,) = await self._parts.tail.read_many([ReadRequest(partition, offset, 1)])
        if isinstance(tail, LakestreamError):
            raise tail
        if tail.pieces:
            where = segment_key(located.extents[0].segment_id) if located.extents else ""
            return _Read(tail.data, "wal", where)
        data = await self._parts.history.read(topic, partition.number, offset, 1)
        return _Read(bytes(data), "table", "")


def _check(topic: Topic, number: int, offset: int, ends: PartitionEnds) -> None:
    if ends.log_start == ends.high_watermark:
        raise NotFound(f"partition {number} of {topic.name} has no records")
    if not ends.log_start <= offset < ends.high_watermark:
        raise NotFound(
            f"partition {number} of {topic.name} has the offsets {ends.log_start} to "
            f"{ends.high_watermark - 1}, and no {offset}"
        )


def _pick(read: _Read, offsets: range, toward: Toward) -> tuple[_Found | None, int]:
    """The first or the last record among the offsets, and where the batches that were read end."""
    best: _Found | None = None
    after = offsets.start
    for record, append_time, around in _records(read.data):
        after = max(after, around.stop)
        if record is None or record.offset not in offsets:
            continue
        best = _Found(record, append_time, read)
        if toward is Toward.NEXT:
            break
    return best, after


def _records(data: bytes) -> Iterator[tuple[Record | None, bool, range]]:
    """Each record with the offsets of its batch; a batch without records gives its offsets."""
    for position, header in walk(data, where="the record browser"):
        offsets = range(header.base_offset, header.base_offset + header.offsets)
        append_time = bool(header.attributes & APPEND_TIME_FLAG)
        batch = memoryview(data)[position : position + header.size]
        yield None, append_time, offsets
        for record in decode_records(batch, header, max_bytes=_MAX_BATCH_BYTES):
            yield record, append_time, offsets


def _described(
    topic: Topic, number: int, asked: int, ends: PartitionEnds, found: _Found
) -> dict[str, Any]:
    record, at = found.record, found.record.offset
    return {
        "topic": topic.name,
        "partition": number,
        "asked": asked,
        "offset": at,
        "timestamp_ms": record.timestamp,
        "timestamp_type": "append" if found.append_time else "create",
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [{"key": name(key), "value": shown(value)} for key, value in record.headers],
        "source": found.read.source,
        "where": found.read.where,
        "previous": at - 1 if at > ends.log_start else None,
        "next": at + 1 if at + 1 < ends.high_watermark else None,
        "log_start": ends.log_start,
        "table_end": ends.table_end,
        "high_watermark": ends.high_watermark,
    }
