"""OffsetDelete, v0.

Behaviour: forgets offsets of a group; those of topics that its members read stay
(GROUP_SUBSCRIBED_TO_TOPIC).
Not done: nothing.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.lookup import find_topic
from lakestream_spark.ingress.messages import Request
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 47
VERSIONS: Final = range(1)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    topics = [(named, await find_topic(broker, named)) for named in message.topics]
    wanted = [
        (topic.name, TopicPartition(topic.id, each.partition_index))
        for named, topic in topics
        if isinstance(topic, Topic)
        for each in named.partitions
        if 0 <= each.partition_index < topic.partitions
    ]
    outcomes = await broker.coordinator.offsets.delete(message.group_id, wanted)
    refused = isinstance(outcomes, ErrorCode)
    response: ResponsePayload = request.respond(
        "OffsetDeleteResponse",
        throttle_time=timedelta(0),
        error_code=outcomes if refused else ErrorCode.none,
        topics=()
        if isinstance(outcomes, ErrorCode)
        else tuple(_topic(request, named, topic, outcomes) for named, topic in topics),
    )
    return response


def _topic(
    request: Request,
    named: Any,
    topic: Topic | ErrorCode,
    outcomes: Mapping[TopicPartition, ErrorCode],
) -> Any:
    return request.respond(
        "OffsetDeleteResponseTopic",
        name=named.name,
        partitions=tuple(
            request.respond(
                "OffsetDeleteResponsePartition",
                partition_index=each.partition_index,
                error_code=_outcome(topic, each.partition_index, outcomes),
            )
            for each in named.partitions
        ),
    )


def _outcome(
    topic: Topic | ErrorCode, index: int, outcomes: Mapping[TopicPartition, ErrorCode]
) -> ErrorCode:
    if isinstance(topic, ErrorCode):
        return topic
    place = TopicPartition(topic.id, index)
    return outcomes.get(place, ErrorCode.unknown_topic_or_partition)
