"""OffsetFetch, v1–v10.

Behaviour: what a group committed, from the store; offset −1 where it committed nothing. Without
topics, everything it committed. Every committed offset is stable, so `require_stable` asks for
nothing more.
Version notes: before v2 an error is told per partition; from v2 all topics are asked for by null;
from v8 many groups; from v10 topics by id.
Not done: member epochs of the newer group protocol (ignored).
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.lookup import find_topic, topic_names
from lakestream_spark.ingress.messages import Request
from lakestream_spark.metadata.group_offsets import NO_EPOCH, Committed
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 9
VERSIONS: Final = range(1, 11)

_FIRST_WITH_ERROR: Final = 2
_FIRST_BATCHED: Final = 8
_NO_OFFSET: Final = -1


class _Topic(NamedTuple):
    """A topic of the answer: how it is named, and its partitions."""

    names: Mapping[str, object]
    partitions: list[tuple[int, Committed | None, ErrorCode]]


class _Answer(NamedTuple):
    code: ErrorCode
    topics: list[_Topic]


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    if request.envelope.version < _FIRST_BATCHED:
        answer = await _fetch(broker, message)
        return _response(
            request,
            error_code=answer.code,
            topics=_topics(request, answer, "OffsetFetchResponseTopic"),
        )
    groups = []
    for wanted in message.groups:
        answer = await _fetch(broker, wanted)
        groups.append(
            request.respond(
                "OffsetFetchResponseGroup",
                group_id=wanted.group_id,
                topics=_topics(request, answer, "OffsetFetchResponseTopics"),
                error_code=answer.code,
            )
        )
    return _response(request, groups=tuple(groups))


async def _fetch(broker: Broker, wanted: Any) -> _Answer:
    if wanted.topics is None:
        return await _everything(broker, wanted.group_id)
    topics = [(named, await find_topic(broker, named)) for named in wanted.topics]
    partitions = [
        TopicPartition(topic.id, index)
        for named, topic in topics
        if isinstance(topic, Topic)
        for index in named.partition_indexes
    ]
    found = await broker.coordinator.offsets.fetch(wanted.group_id, partitions)
    return _Answer(
        found if isinstance(found, ErrorCode) else ErrorCode.none,
        [_Topic(topic_names(named), _places(named, topic, found)) for named, topic in topics],
    )


def _places(
    named: Any,
    topic: Topic | ErrorCode,
    found: Mapping[TopicPartition, Committed] | ErrorCode,
) -> list[tuple[int, Committed | None, ErrorCode]]:
    indexes: Iterable[int] = named.partition_indexes
    if isinstance(found, ErrorCode):
        return [(index, None, found) for index in indexes]
    if isinstance(topic, ErrorCode):
        # A name that is not there has no offset; an id that is not there is an error.
        named_by_id = topic is ErrorCode.unknown_topic_id
        code = topic if named_by_id else ErrorCode.none
        return [(index, None, code) for index in indexes]
    places = [(index, TopicPartition(topic.id, index)) for index in indexes]
    return [(index, found.get(place), ErrorCode.none) for index, place in places]


async def _everything(broker: Broker, group_id: str) -> _Answer:
    found = await broker.coordinator.offsets.fetch_all(group_id)
    if isinstance(found, ErrorCode):
        return _Answer(found, [])
    topics = []
    for name, own in groupby(found, key=lambda each: each[0]):
        offsets = [committed for _, committed in own]
        names = {"name": name, "topic_id": offsets[0].partition.topic_id}
        places = [(each.partition.number, each, ErrorCode.none) for each in offsets]
        topics.append(_Topic(names, list(places)))
    return _Answer(ErrorCode.none, topics)


def _topics(request: Request, answer: _Answer, kind: str) -> tuple[Any, ...]:
    refused = answer.code is not ErrorCode.none
    told_above = refused and request.envelope.version >= _FIRST_WITH_ERROR
    partition = kind.replace("Topic", "Partition")
    return tuple(
        request.respond(
            kind,
            **topic.names,
            partitions=tuple(_partition(request, partition, *each) for each in topic.partitions),
        )
        for topic in ([] if told_above else answer.topics)
    )


def _partition(
    request: Request, kind: str, index: int, committed: Committed | None, code: ErrorCode
) -> Any:
    return request.respond(
        kind,
        partition_index=index,
        committed_offset=_NO_OFFSET if committed is None else committed.offset,
        committed_leader_epoch=NO_EPOCH if committed is None else committed.leader_epoch,
        metadata="" if committed is None else committed.metadata,
        error_code=code,
    )


def _response(request: Request, **values: object) -> ResponsePayload:
    response: ResponsePayload = request.respond(
        "OffsetFetchResponse", throttle_time=timedelta(0), **values
    )
    return response
