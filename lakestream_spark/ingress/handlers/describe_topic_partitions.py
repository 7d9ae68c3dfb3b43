"""DescribeTopicPartitions, v0.

Behaviour: the topics asked for in the order of their names, all when none is; after the asked-for
number of partitions, at most 2,000, the answer ends with a cursor at the next one. A cursor leaves
out the topics before its own, and its own up to its partition.
"""

from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.placement import replica_ids, shown_partition
from lakestream_spark.ingress.refusal import Outcome, outcome
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 75
VERSIONS: Final = range(1)

MAX_PARTITIONS: Final = 2000
# read, write, create, delete, alter, describe, describe configs, alter configs
_ALL_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))


class _Page(NamedTuple):
    """Topics of the answer, and where the next one begins: topic and partition."""

    topics: tuple[Any, ...]
    following: tuple[str, int] | None


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    limit = max(1, min(request.message.response_partition_limit, MAX_PARTITIONS))
    page = _page(broker, request, await _found(broker, request.message), limit)
    cursor = None
    if page.following is not None:
        name, index = page.following
        cursor = request.respond("Cursor", topic_name=name, partition_index=index)
    response: ResponsePayload = request.respond(
        "DescribeTopicPartitionsResponse",
        throttle_time=timedelta(0),
        topics=page.topics,
        next_cursor=cursor,
    )
    return response


async def _found(broker: Broker, message: Any) -> list[tuple[str, Outcome]]:
    """The topics from the cursor on, by name."""
    from_name = message.cursor.topic_name if message.cursor else ""
    if not message.topics:
        topics = sorted(await broker.admin.topics.list(), key=lambda topic: topic.name)
        return [(each.name, Outcome(each)) for each in topics if each.name >= from_name]
    names = sorted({each.name for each in message.topics if each.name >= from_name})
    return [(name, await outcome(broker.admin.topics.get(name))) for name in names]


def _page(broker: Broker, request: Request, found: list[tuple[str, Outcome]], limit: int) -> _Page:
    cursor = request.message.cursor
    answers: list[Any] = []
    for name, each in found:
        first = max(cursor.partition_index, 0) if cursor and cursor.topic_name == name else 0
        total = each.result.partitions if each.result else 0
        last = max(first, min(total, first + limit))
        if limit == 0:
            return _Page(tuple(answers), (name, first))
        answers.append(_describe(broker, request, name, each, range(first, last)))
        if last < total:
            return _Page(tuple(answers), (name, last))
        limit -= last - first
    return _Page(tuple(answers), None)


def _describe(broker: Broker, request: Request, name: str, found: Outcome, shown: range) -> Any:
    topic: Topic | None = found.result
    return request.respond(
        "DescribeTopicPartitionsResponseTopic",
        error_code=found.code,
        name=name,
        topic_id=topic.id if topic else None,
        is_internal=False,
        partitions=tuple(
            _partition(request, index, replica_ids(broker.cluster, topic, index))
            for index in shown
            if topic
        ),
        topic_authorized_operations=_ALL_OPERATIONS,
    )


def _partition(request: Request, index: int, replicas: tuple[int, ...]) -> Any:
    return request.respond(
        "DescribeTopicPartitionsResponsePartition",
        **shown_partition(index, replicas),
        eligible_leader_replicas=(),
        last_known_elr=(),
    )
