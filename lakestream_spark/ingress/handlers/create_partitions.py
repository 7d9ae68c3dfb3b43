"""CreatePartitions, v0–v3.

Behaviour: partitions are there when the answer leaves, empty, from offset 0. Replicas assigned by
hand must be as many lists as new partitions; the brokers they name mean nothing. A topic grows to
10,000 partitions at most.
"""

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.handlers.create_topics import check_replicas
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import MAX_NEW_PARTITIONS, Refusal, outcome, repeated
from lakestream_spark.metadata.topics import check_partitions

API_KEY: Final = 37
VERSIONS: Final = range(4)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    twice = repeated(message.topics, lambda topic: topic.name)
    left = MAX_NEW_PARTITIONS
    results = []
    for asked in message.topics:
        done = await outcome(_grow(broker, asked, asked.name in twice, left, message.validate_only))
        left -= done.result or 0
        results.append(
            request.respond(
                "CreatePartitionsTopicResult",
                name=asked.name,
                error_code=done.code,
                error_message=done.message,
            )
        )
    response: ResponsePayload = request.respond(
        "CreatePartitionsResponse", throttle_time=timedelta(0), results=tuple(results)
    )
    return response


async def _grow(broker: Broker, asked: Any, twice: bool, left: int, validate_only: bool) -> int:
    """The number of partitions that were added."""
    if twice:
        raise Refusal(ErrorCode.invalid_request, "the request names this topic more than once")
    topic = await broker.admin.topics.get(asked.name)
    new: int = asked.count - topic.partitions
    if new <= 0:
        raise Refusal(
            ErrorCode.invalid_partitions,
            f"the topic has {topic.partitions} partitions; "
            f"{asked.count} would not be more, and partitions are never taken away",
        )
    if new > left:
        raise Refusal(
            ErrorCode.policy_violation,
            f"a request makes at most {MAX_NEW_PARTITIONS} partitions: ask for fewer at a time",
        )
    check_partitions(asked.count)
    _check_assignments(asked.assignments, new)
    if not validate_only:
        broker.admin.changed(await broker.admin.topics.add_partitions(topic.id, asked.count))
    return new


def _check_assignments(assignments: Any, new: int) -> None:
    if assignments is None:
        return
    if len(assignments) != new:
        raise Refusal(
            ErrorCode.invalid_replica_assignment,
            f"{new} partitions are new, but replicas are assigned for {len(assignments)}",
        )
    check_replicas([each.broker_ids for each in assignments])
