"""DeleteRecords, v0–v2.

Behaviour: moves the log start; -1 stands for the high watermark. Rows stay in the table. Refused
for a topic whose `cleanup.policy` does not contain `delete`, as in Kafka.
"""

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.lookup import find_partition
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import Outcome, Refusal, outcome, repeated
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 21
VERSIONS: Final = range(3)

_NO_OFFSET: Final = -1


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    topics = []
    twice = repeated(request.message.topics, lambda topic: topic.name)
    for named in request.message.topics:
        found = await outcome(_find(broker, named, named.name in twice))
        partitions = [await _answer(broker, request, found, each) for each in named.partitions]
        topics.append(
            request.respond(
                "DeleteRecordsTopicResult", name=named.name, partitions=tuple(partitions)
            )
        )
    response: ResponsePayload = request.respond(
        "DeleteRecordsResponse", throttle_time=timedelta(0), topics=tuple(topics)
    )
    return response


async def _find(broker: Broker, named: Any, twice: bool) -> Topic:
    if twice or repeated(named.partitions, lambda partition: partition.partition_index):
        raise Refusal(ErrorCode.invalid_request, "a topic or partition is named more than once")
    return await broker.admin.topics.get(named.name)


async def _answer(broker: Broker, request: Request, found: Outcome, asked: Any) -> Any:
    done = await outcome(_delete(broker, found.result, asked)) if found.result else found
    return request.respond(
        "DeleteRecordsPartitionResult",
        partition_index=asked.partition_index,
        low_watermark=_NO_OFFSET if done.result is None else done.result,
        error_code=done.code,
    )


async def _delete(broker: Broker, topic: Topic, asked: Any) -> int:
    partition = find_partition(topic, asked.partition_index)
    if not TopicConfig.of(topic.config).expires:
        raise Refusal(ErrorCode.policy_violation, "the topic's cleanup.policy is not delete")
    return await broker.admin.records.delete_records(partition, asked.offset)
