"""CreateTopics, v2–v7.

Behaviour: topics are there when the answer leaves, so the timeout means nothing. Any replication
factor from 1 on is accepted and kept as asked for; -1 is 1. -1 partitions are the broker's default.
Replicas assigned by hand give the number of partitions; the brokers they name mean nothing. Names
that differ only in `.` and `_` do not collide here. A request makes at most 10,000 partitions.
Version notes: from v5 the answer has the topic's settings, from v7 its id.
Not done: quotas on administration.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import TopicExists, UnknownTopic
from lakestream_spark.core.ids import TopicId
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.config_entries import topic_entries
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import MAX_NEW_PARTITIONS, Outcome, Refusal, outcome, repeated
from lakestream_spark.metadata.topic_config import check_config
from lakestream_spark.metadata.topics import check_name

API_KEY: Final = 19
VERSIONS: Final = range(2, 8)

_DEFAULT: Final = -1


class _Shape(NamedTuple):
    """Partitions and replicas of a topic to be."""

    partitions: int
    replicas: int


class _Made(NamedTuple):
    """A topic that was made, or one that could have been: then it has no id."""

    topic_id: TopicId | None
    shape: _Shape
    config: dict[str, str]


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    twice = repeated(message.topics, lambda topic: topic.name)
    left = MAX_NEW_PARTITIONS
    results = []
    for asked in message.topics:
        done = await outcome(
            _create(broker, asked, asked.name in twice, left, message.validate_only)
        )
        left -= done.result.shape.partitions if done.result else 0
        results.append(_describe(broker, request, asked.name, done))
    response: ResponsePayload = request.respond(
        "CreateTopicsResponse", throttle_time=timedelta(0), topics=tuple(results)
    )
    return response


async def _create(broker: Broker, asked: Any, twice: bool, left: int, validate_only: bool) -> _Made:
    if twice:
        raise Refusal(ErrorCode.invalid_request, "the request names this topic more than once")
    check_name(asked.name)
    await _refuse_existing(broker, asked.name)
    shape = _shape(broker, asked)
    if shape.partitions > left:
        raise Refusal(
            ErrorCode.policy_violation,
            f"a request makes at most {MAX_NEW_PARTITIONS} partitions: ask for fewer at a time",
        )
    config = check_config(_config(asked.configs))
    if validate_only:
        return _Made(None, shape, config)
    topic = await broker.admin.topics.create(
        asked.name,
        partitions=shape.partitions,
        replication_factor=shape.replicas,
        config=config,
    )
    broker.admin.changed(topic)
    return _Made(topic.id, shape, config)


async def _refuse_existing(broker: Broker, name: str) -> None:
    try:
        await broker.admin.topics.get(name)
    except UnknownTopic:
        return
    raise TopicExists("the topic exists already", topic=name)


def _shape(broker: Broker, asked: Any) -> _Shape:
    if asked.assignments:
        return _assigned(asked)
    if asked.num_partitions != _DEFAULT and asked.num_partitions < 1:
        raise Refusal(
            ErrorCode.invalid_partitions,
            f"a topic cannot have {asked.num_partitions} partitions: "
            "ask for 1 or more, or for -1, which is the default",
        )
    if asked.replication_factor != _DEFAULT and asked.replication_factor < 1:
        raise Refusal(
            ErrorCode.invalid_replication_factor,
            f"the replication factor cannot be {asked.replication_factor}: "
            "ask for 1 or more, or for -1, which is the default",
        )
    default = broker.limits.default_partitions
    return _Shape(
        default if asked.num_partitions == _DEFAULT else asked.num_partitions,
        max(asked.replication_factor, 1),
    )


def _assigned(asked: Any) -> _Shape:
    """The shape that replicas assigned by hand ask for."""
    if (asked.num_partitions, asked.replication_factor) != (_DEFAULT, _DEFAULT):
        raise Refusal(
            ErrorCode.invalid_request,
            "with replicas assigned by hand, partitions and replication factor must be -1",
        )
    partitions = sorted(each.partition_index for each in asked.assignments)
    if partitions != list(range(len(partitions))):
        raise Refusal(
            ErrorCode.invalid_replica_assignment,
            "partitions assigned by hand must be numbered 0, 1, 2 and so on",
        )
    replicas = check_replicas([each.broker_ids for each in asked.assignments])
    return _Shape(len(partitions), replicas)


def check_replicas(assignments: Sequence[Sequence[int]]) -> int:
    """How many replicas each partition is given; raises `Refusal` unless all get as many."""
    sizes = {len(brokers) for brokers in assignments}
    distinct = all(len(set(brokers)) == len(brokers) for brokers in assignments)
    if len(sizes) > 1 or 0 in sizes or not distinct:
        raise Refusal(
            ErrorCode.invalid_replica_assignment,
            "every partition needs as many replicas as the others, at least one, each on its own "
            "broker",
        )
    return sizes.pop()


def _config(entries: Any) -> dict[str, str | None]:
    twice = repeated(entries, lambda entry: entry.name)
    if twice:
        raise Refusal(
            ErrorCode.invalid_request, f"settings given twice: {', '.join(sorted(twice))}"
        )
    return {entry.name: entry.value for entry in entries}


def _describe(broker: Broker, request: Request, name: str, done: Outcome) -> Any:
    made: _Made | None = done.result
    entries = topic_entries(broker, made.config) if made and request.envelope.version >= 5 else ()
    return request.respond(
        "CreatableTopicResult",
        name=name,
        topic_id=made.topic_id if made else None,
        error_code=done.code,
        error_message=done.message,
        num_partitions=made.shape.partitions if made else -1,
        replication_factor=made.shape.replicas if made else -1,
        configs=tuple(
            request.respond(
                "CreatableTopicConfigs",
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in entries
        ),
    )
