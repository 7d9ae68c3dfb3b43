"""OffsetForLeaderEpoch, v2–v4.

Behaviour: there are no leaders, so there is one epoch, 0, and it ends at the high watermark: a
client that checks for truncation always finds that nothing was truncated.
Version notes: v3 adds the replica id, v4 is flexible.
"""

from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.errors import error_code
from lakestream_spark.ingress.lookup import find_partition, find_topic
from lakestream_spark.ingress.messages import Request
from lakestream_spark.metadata.topics import Topic

API_KEY: Final = 23
VERSIONS: Final = range(2, 5)

_ONLY_EPOCH: Final = 0
_UNKNOWN: Final = -1


class _End(NamedTuple):
    partition: int
    code: ErrorCode
    epoch: int = _UNKNOWN
    offset: int = _UNKNOWN


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    topics = []
    for named in request.message.topics:
        topic = await find_topic(broker, named)
        ends = [await _end(broker, topic, wanted) for wanted in named.partitions]
        topics.append(
            request.respond(
                "OffsetForLeaderTopicResult",
                topic=named.topic,
                partitions=tuple(_describe(request, end) for end in ends),
            )
        )
    response: ResponsePayload = request.respond(
        "OffsetForLeaderEpochResponse", throttle_time=timedelta(0), topics=tuple(topics)
    )
    return response


async def _end(broker: Broker, topic: Topic | ErrorCode, wanted: Any) -> _End:
    if isinstance(topic, ErrorCode):
        return _End(wanted.partition, topic)
    if wanted.current_leader_epoch > _ONLY_EPOCH:
        return _End(wanted.partition, ErrorCode.unknown_leader_epoch)
    try:
        partition = find_partition(topic, wanted.partition)
        ends = (await broker.log.index.locate(partition, 0, 0)).ends
    except LakestreamError as error:
        return _End(wanted.partition, error_code(error))
    if wanted.leader_epoch != _ONLY_EPOCH:
        return _End(wanted.partition, ErrorCode.none)
    return _End(wanted.partition, ErrorCode.none, _ONLY_EPOCH, ends.high_watermark)


def _describe(request: Request, end: _End) -> Any:
    return request.respond(
        "EpochEndOffset",
        error_code=end.code,
        partition=end.partition,
        leader_epoch=end.epoch,
        end_offset=end.offset,
    )
