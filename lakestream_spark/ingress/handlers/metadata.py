"""Metadata, v0–v13.

Behaviour: lists the live brokers and spreads partitions over them, within the client's zone when
its client id carries `zone_id=`; the one named as leader is only the warmest, every broker serves
every partition. Creates a topic that is asked for by name when both sides allow it.
Version notes: all topics are asked for by null, in v0 by an empty list; from v10 a topic may be
named by id; from v8 authorised operations, which are not known here.
"""

import re
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import LakestreamError, TopicExists
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.errors import error_code
from lakestream_spark.ingress.lookup import find_topic
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.placement import replica_ids, shown_partition
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 3
VERSIONS: Final = range(14)

_ZONE: Final = re.compile(r"zone_id=([^,;\s]+)")


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    response: ResponsePayload = request.respond(
        "MetadataResponse",
        throttle_time=timedelta(0),
        brokers=tuple(
            request.respond("MetadataResponseBroker", **node._asdict())
            for node in broker.cluster.brokers()
        ),
        cluster_id=broker.address.cluster_id,
        controller_id=broker.cluster.brokers()[0].node_id,
        topics=tuple(await _topics(broker, request)),
        error_code=ErrorCode.none,
    )
    return response


def client_zone(client_id: str | None) -> str | None:
    """The zone in a client id such as `orders-app,zone_id=eu-1a`."""
    match = _ZONE.search(client_id or "")
    return match[1] if match else None


async def _topics(broker: Broker, request: Request) -> list[Any]:
    named = request.message.topics
    if named is None or (not named and request.envelope.version == 0):
        return [_describe(broker, request, topic) for topic in await broker.log.topics.list()]
    answers = []
    for each in named:
        found = await _find_or_create(broker, request, each)
        if isinstance(found, Topic):
            answers.append(_describe(broker, request, found))
        else:
            answers.append(_refuse(request, found, each))
    return answers


async def _find_or_create(broker: Broker, request: Request, named: Any) -> Topic | ErrorCode:
    found = await find_topic(broker, named)
    may_create = broker.limits.auto_create_topics and getattr(
        request.message, "allow_auto_topic_creation", True
    )
    if found is not ErrorCode.unknown_topic_or_partition or not may_create:
        return found
    try:
        return await broker.log.topics.create(
            named.name, partitions=broker.limits.default_partitions
        )
    except TopicExists:
        return await find_topic(broker, named)
    except LakestreamError as error:
        return error_code(error)


def _describe(broker: Broker, request: Request, topic: Topic) -> Any:
    zone = client_zone(request.client_id)
    partitions = tuple(
        request.respond(
            "MetadataResponsePartition",
            **shown_partition(index, replica_ids(broker.cluster, topic, index, zone)),
        )
        for index in range(topic.partitions)
    )
    return request.respond(
        "MetadataResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=False,
        partitions=partitions,
    )


def _refuse(request: Request, code: ErrorCode, named: Any) -> Any:
    return request.respond(
        "MetadataResponseTopic",
        error_code=code,
        name=named.name,
        topic_id=getattr(named, "topic_id", None),
        is_internal=False,
        partitions=(),
    )
