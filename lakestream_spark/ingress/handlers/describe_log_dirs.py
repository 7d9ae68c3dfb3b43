"""DescribeLogDirs, v1–v5.

Behaviour: a log directory is the place of a profile's WAL, its URL without secrets. A partition
lies in that of its topic's profile, and its size is what is not in the table yet. Each broker lists
the partitions it is the leader of, so that the sum over all brokers is right.
Version notes: from v3 one code for all, from v4 the size of the storage, which is unknown here.
Not done: the size of tables. What does not exist is left out, as in Kafka.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.broker_settings import log_dirs, without_secrets
from lakestream_spark.ingress.errors import error_code
from lakestream_spark.ingress.messages import Request
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 35
VERSIONS: Final = range(1, 6)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    try:
        topics = await _asked(broker, request.message)
        sizes = await broker.admin.topics.wal_bytes([topic.id for topic, _ in topics])
    except LakestreamError as error:
        return _respond(request, error_code(error), ())
    by_place: dict[str, list[Any]] = defaultdict(list)
    for topic, indexes in topics:
        profile = TopicConfig.of(topic.config).profile
        place = without_secrets(broker.admin.log_dirs[profile])
        by_place[place].append(_describe(broker, request, topic, indexes, sizes))
    results = tuple(_result(request, place, by_place[place]) for place in log_dirs(broker))
    return _respond(request, ErrorCode.none, results)


def _respond(request: Request, code: ErrorCode, results: tuple[Any, ...]) -> ResponsePayload:
    response: ResponsePayload = request.respond(
        "DescribeLogDirsResponse", throttle_time=timedelta(0), error_code=code, results=results
    )
    return response


async def _asked(broker: Broker, message: Any) -> list[tuple[Topic, Sequence[int]]]:
    """The live topics among those asked for, each with its partitions."""
    topics = await broker.admin.topics.list()
    if message.topics is None:
        return [(topic, range(topic.partitions)) for topic in topics]
    asked: dict[str, set[int]] = defaultdict(set)
    for each in message.topics:
        asked[each.topic].update(each.partitions)
    return [(topic, sorted(asked[topic.name])) for topic in topics if topic.name in asked]


def _result(request: Request, place: str, topics: list[Any]) -> Any:
    return request.respond(
        "DescribeLogDirsResult",
        error_code=ErrorCode.none,
        log_dir=place,
        topics=tuple(topic for topic in topics if topic.partitions),
    )


def _describe(
    broker: Broker,
    request: Request,
    topic: Topic,
    indexes: Sequence[int],
    sizes: Mapping[TopicPartition, int],
) -> Any:
    known = [TopicPartition(topic.id, index) for index in indexes]
    return request.respond(
        "DescribeLogDirsTopic",
        name=topic.name,
        partitions=tuple(
            request.respond(
                "DescribeLogDirsPartition",
                partition_index=partition.number,
                partition_size=sizes[partition],
                offset_lag=0,
                is_future_key=False,
            )
            for partition in known
            if partition in sizes and broker.cluster.leader(partition) == broker.cluster.me
        ),
    )
