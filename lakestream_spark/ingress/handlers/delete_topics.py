"""DeleteTopics, v1–v6.

Behaviour: topics are gone when the answer leaves. What becomes of the table is decided by
`lakestream.table.on.delete`, by the upkeep of tables.
Version notes: from v5 a message for each error; from v6 a topic may be named by its id.
"""

from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import TopicId
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import Refusal, outcome, repeated
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 20
VERSIONS: Final = range(1, 7)


class _Named(NamedTuple):
    name: str | None
    topic_id: UUID | None


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    asked = _asked(request.message)
    twice = repeated(asked, lambda named: named)
    responses = []
    for named in asked:
        done = await outcome(_delete(broker, named, named in twice))
        topic: Topic | None = done.result
        responses.append(
            request.respond(
                "DeletableTopicResult",
                name=topic.name if topic else named.name,
                topic_id=topic.id if topic else named.topic_id,
                error_code=done.code,
                error_message=done.message,
            )
        )
    response: ResponsePayload = request.respond(
        "DeleteTopicsResponse", throttle_time=timedelta(0), responses=tuple(responses)
    )
    return response


def _asked(message: Any) -> list[_Named]:
    if hasattr(message, "topics"):
        return [_Named(each.name, each.topic_id) for each in message.topics]
    return [_Named(name, None) for name in message.topic_names]


async def _delete(broker: Broker, named: _Named, twice: bool) -> Topic:
    if twice:
        raise Refusal(ErrorCode.invalid_request, "the request names this topic more than once")
    if (named.name is None) == (named.topic_id is None):
        raise Refusal(
            ErrorCode.invalid_request, "name the topic by its name or by its id, and not by both"
        )
    topic = await _find(broker, named)
    await broker.admin.topics.delete(topic.id)
    broker.admin.changed(topic)
    return topic


async def _find(broker: Broker, named: _Named) -> Topic:
    if named.topic_id is None:
        return await broker.admin.topics.get(str(named.name))
    try:
        return await broker.admin.topics.get_by_id(TopicId(named.topic_id))
    except UnknownTopic as error:
        raise Refusal(ErrorCode.unknown_topic_id, str(error)) from error
