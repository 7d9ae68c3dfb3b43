"""From what a request names to a live topic: by name, or by id in newer versions."""

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from lakestream_spark.core.errors import LakestreamError, UnknownTopic
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.errors import error_code
from lakestream_spark.metadata.topics import Topic


async def find_topic(broker: Broker, named: Any) -> Topic | ErrorCode:
    """The topic that an entity of a request names, or the error to answer for it."""
    topic_id: UUID | None = getattr(named, "topic_id", None)
    return await find_topic_by_key(broker, _name(named) if topic_id is None else topic_id)


async def find_topic_by_key(broker: Broker, key: str | UUID) -> Topic | ErrorCode:
    """The topic of that name or id, or the error to answer for it."""
    try:
        if isinstance(key, UUID):
            return await broker.log.topics.get_by_id(TopicId(key))
        return await broker.log.topics.get(key)
    except UnknownTopic as error:
        return ErrorCode.unknown_topic_id if isinstance(key, UUID) else error_code(error)
    except LakestreamError as error:
        return error_code(error)


def find_partition(topic: Topic, index: int) -> TopicPartition:
    """The topic's partition; raises `UnknownTopic` when it has no such one."""
    if not 0 <= index < topic.partitions:
        raise UnknownTopic("the topic has no such partition", topic=topic.name, partition=index)
    return TopicPartition(topic.id, index)


def topic_names(named: Any) -> dict[str, object]:
    """The fields by which a response names the same topic; each version takes those it has."""
    name = getattr(named, "name", None) or getattr(named, "topic", None)
    return {"name": name, "topic": name, "topic_id": getattr(named, "topic_id", None)}


def _name(named: Any) -> str:
    return str(topic_names(named)["name"] or "")
