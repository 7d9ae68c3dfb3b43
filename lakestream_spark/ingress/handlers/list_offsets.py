"""ListOffsets, v1–v11.

Behaviour: earliest (-2), latest (-1), the newest time (-3), earliest local (-4, here the earliest),
and the first record at or after a time, over table and WAL. Nothing is tiered, so the last tiered
offset (-5) and the earliest pending upload (-6) are unknown.
Version notes: from v2 an isolation level, which makes latest the last stable offset; from v4 leader
epochs, which are always 0; the special times from -3 on came with v7, v8, v9 and v11 and are
refused before (UNSUPPORTED_VERSION), as are those that do not exist.
"""

import asyncio
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.errors import error_code
from lakestream_spark.ingress.lookup import find_partition, find_topic, topic_names
from lakestream_spark.ingress.messages import Request
from lakestream_spark.kafka.records import NO_TIMESTAMP, TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.wal.ports import PartitionEnds

API_KEY: Final = 2
VERSIONS: Final = range(1, 12)

_LATEST: Final = -1
_EARLIEST: Final = -2
_NEWEST: Final = -3
_EARLIEST_LOCAL: Final = -4
_FIRST_WITH: Final = {_LATEST: 0, _EARLIEST: 0, _NEWEST: 7, _EARLIEST_LOCAL: 8, -5: 9, -6: 11}
_NOT_FOUND: Final = TimestampedOffset(-1, NO_TIMESTAMP)
_LEADER_EPOCH: Final = 0


class _Found(NamedTuple):
    partition: int
    code: ErrorCode
    place: TimestampedOffset = _NOT_FOUND


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    topics = []
    for named in request.message.topics:
        topic = await find_topic(broker, named)
        found = await asyncio.gather(
            *(_find(broker, request, topic, wanted) for wanted in named.partitions)
        )
        partitions = tuple(_describe(request, each) for each in found)
        topics.append(
            request.respond("ListOffsetsTopicResponse", **topic_names(named), partitions=partitions)
        )
    response: ResponsePayload = request.respond(
        "ListOffsetsResponse", throttle_time=timedelta(0), topics=tuple(topics)
    )
    return response


async def _find(broker: Broker, request: Request, topic: Topic | ErrorCode, wanted: Any) -> _Found:
    index = wanted.partition_index
    if isinstance(topic, ErrorCode):
        return _Found(index, topic)
    if getattr(wanted, "current_leader_epoch", -1) > _LEADER_EPOCH:
        return _Found(index, ErrorCode.unknown_leader_epoch)
    if not _is_offered(wanted.timestamp, request.envelope.version):
        return _Found(index, ErrorCode.unsupported_version)
    committed_only = getattr(request.message, "isolation_level", 0) == 1
    try:
        place = await _place(broker, topic, index, wanted.timestamp, committed_only)
    except LakestreamError as error:
        return _Found(index, error_code(error))
    return _Found(index, ErrorCode.none, place)


def _is_offered(timestamp_ms: int, version: int) -> bool:
    first = _FIRST_WITH.get(timestamp_ms)
    return timestamp_ms >= 0 if first is None else version >= first


async def _place(
    broker: Broker, topic: Topic, index: int, timestamp_ms: int, committed_only: bool
) -> TimestampedOffset:
    partition = find_partition(topic, index)
    ends = await _ends(broker, partition)
    if timestamp_ms in (_EARLIEST, _EARLIEST_LOCAL):
        return TimestampedOffset(ends.log_start, NO_TIMESTAMP)
    if timestamp_ms == _LATEST:
        latest = ends.last_stable if committed_only else ends.high_watermark
        return TimestampedOffset(latest, NO_TIMESTAMP)
    if timestamp_ms < 0 and timestamp_ms != _NEWEST:
        return _NOT_FOUND
    if timestamp_ms == _NEWEST:
        return await _newest(broker, topic, partition)
    return await _first_at(broker, topic, partition, timestamp_ms, ends)


async def _first_at(
    broker: Broker, topic: Topic, partition: TopicPartition, timestamp_ms: int, ends: PartitionEnds
) -> TimestampedOffset:
    """The first record at or after the time."""

    async def in_table(offsets: range) -> TimestampedOffset | None:
        history = broker.log.history
        if not offsets:
            return None
        return await history.offset_for_timestamp(topic, partition.number, timestamp_ms, offsets)

    found = await in_table(range(ends.log_start, ends.table_end))
    if found is not None:
        return found
    behind = await broker.log.reader.offset_for_timestamp(partition, timestamp_ms)
    now = await _ends(broker, partition)
    # What went into the table meanwhile, past both searches.
    found = await in_table(range(max(ends.table_end, now.log_start), now.table_end))
    return found or behind or _NOT_FOUND


async def _newest(broker: Broker, topic: Topic, partition: TopicPartition) -> TimestampedOffset:
    """Of the record with the newest time; the first one where several have it."""
    # The WAL first: what leaves it meanwhile is then found in the table.
    found = [await broker.log.reader.offset_of_max_timestamp(partition)]
    ends = await _ends(broker, partition)
    old = range(ends.log_start, ends.table_end)
    if old:
        history = broker.log.history
        found.insert(0, await history.offset_of_max_timestamp(topic, partition.number, old))
    known = [each for each in found if each is not None]
    return max(known, key=lambda each: each.timestamp, default=_NOT_FOUND)


async def _ends(broker: Broker, partition: TopicPartition) -> PartitionEnds:
    return (await broker.log.index.locate(partition, 0, 0)).ends


def _describe(request: Request, found: _Found) -> Any:
    return request.respond(
        "ListOffsetsPartitionResponse",
        partition_index=found.partition,
        error_code=found.code,
        timestamp=found.place.timestamp,
        offset=found.place.offset,
        leader_epoch=_LEADER_EPOCH if found.place.offset >= 0 else -1,
    )
