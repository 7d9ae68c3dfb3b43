"""OffsetCommit, v2–v10.

Behaviour: offsets are stored under the topic's id, all of a request in one transaction, before the
answer. A partition that does not exist, or a note that is too long, is refused alone.
Version notes: v2–v4 may name a retention time; from v6 leader epochs; from v10 topics by id.
Not done: nothing.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.groups.messages import Caller
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.lookup import find_topic, topic_names
from lakestream_spark.ingress.messages import Request
from lakestream_spark.metadata.group_offsets import NO_EPOCH, Committed
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 8
VERSIONS: Final = range(2, 11)

_MS: Final = timedelta(milliseconds=1)


class _Asked(NamedTuple):
    """A partition of the request: an offset to commit, or refused already."""

    partition: int
    place: TopicPartition | ErrorCode


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    asked: list[tuple[Any, list[_Asked]]] = []
    offsets: list[Committed] = []
    for named in request.message.topics:
        topic = await find_topic(broker, named)
        own = [_place(topic, each.partition_index) for each in named.partitions]
        asked.append((named, own))
        for each, (_, place) in zip(named.partitions, own, strict=True):
            if isinstance(place, TopicPartition):
                offsets.append(_committed(place, each))
    outcomes = await _commit(broker, request, offsets)
    topics = tuple(_topic(request, named, own, outcomes) for named, own in asked)
    response: ResponsePayload = request.respond(
        "OffsetCommitResponse", throttle_time=timedelta(0), topics=topics
    )
    return response


def _place(topic: Topic | ErrorCode, index: int) -> _Asked:
    if isinstance(topic, ErrorCode):
        return _Asked(index, topic)
    if not 0 <= index < topic.partitions:
        return _Asked(index, ErrorCode.unknown_topic_or_partition)
    return _Asked(index, TopicPartition(topic.id, index))


def _committed(place: TopicPartition, sent: Any) -> Committed:
    epoch = getattr(sent, "committed_leader_epoch", NO_EPOCH)
    return Committed(place, sent.committed_offset, epoch, sent.committed_metadata or "")


async def _commit(
    broker: Broker, request: Request, offsets: list[Committed]
) -> Mapping[TopicPartition, ErrorCode] | ErrorCode:
    message = request.message
    caller = Caller(
        message.member_id,
        getattr(message, "group_instance_id", None),
        message.generation_id_or_member_epoch,
    )
    retention = getattr(message, "retention_time", -_MS)
    retention_ms = None if retention < timedelta(0) else retention // _MS
    return await broker.coordinator.offsets.commit(message.group_id, caller, offsets, retention_ms)


def _topic(
    request: Request,
    named: Any,
    asked: list[_Asked],
    outcomes: Mapping[TopicPartition, ErrorCode] | ErrorCode,
) -> Any:
    return request.respond(
        "OffsetCommitResponseTopic",
        **topic_names(named),
        partitions=tuple(
            request.respond(
                "OffsetCommitResponsePartition",
                partition_index=each.partition,
                error_code=_outcome(each.place, outcomes),
            )
            for each in asked
        ),
    )


def _outcome(
    place: TopicPartition | ErrorCode, outcomes: Mapping[TopicPartition, ErrorCode] | ErrorCode
) -> ErrorCode:
    if isinstance(outcomes, ErrorCode):
        return outcomes
    return place if isinstance(place, ErrorCode) else outcomes[place]
