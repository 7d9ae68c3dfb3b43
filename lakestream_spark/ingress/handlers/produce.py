"""Produce, v3–v13.

Behaviour: every batch is checked (header and CRC) and appended to the WAL of its topic's profile;
the answer comes after the commit, one error or offset per partition. With acks=0 nothing is
answered and an error closes the connection. Append-time topics restamp; compacted ones refuse
records without a key. A repeated batch of an idempotent producer gets its first answer, through any
broker.
Version notes: from v8 error messages; from v13 topics are named by id.
Not done: transactions; a transactional id or batch is refused.
"""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import LakestreamError, Rejected
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.errors import VERDICT_MAP, error_code
from lakestream_spark.ingress.lookup import find_partition, find_topic, topic_names
from lakestream_spark.ingress.messages import Request
from lakestream_spark.kafka.batch import (
    APPEND_TIME_FLAG,
    CheckedBatch,
    check,
    restamp_append_time,
)
from lakestream_spark.kafka.records import decode_records
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.wal.receipt import BatchAnswer

API_KEY: Final = 0
VERSIONS: Final = range(3, 14)

_NO_OFFSET: Final = -1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ACKS: Final = (-1, 0, 1)
_NO_TRANSACTIONS: Final = "transactions are not offered: produce without a transactional id"


class _Refused(NamedTuple):
    """A partition whose batches are not taken."""

    code: ErrorCode
    message: str | None = None


class _Taken(NamedTuple):
    """A partition whose batches are on their way."""

    answers: "asyncio.Task[list[BatchAnswer]]"
    append_time_ms: int | None


class _Outcome(NamedTuple):
    partition: int
    code: ErrorCode
    base_offset: int = _NO_OFFSET
    append_time_ms: int | None = None
    message: str | None = None


Started = list[tuple[int, _Taken | _Refused]]


async def begin(broker: Broker, request: Request) -> Awaitable[ResponsePayload | None]:
    """Hand every batch to its writer, in the order of the request; the result waits for them."""
    started = [
        (named, await _begin_topic(broker, request.message, named))
        for named in request.message.topic_data
    ]
    return _finish(request, started)


async def _begin_topic(broker: Broker, message: Any, named: Any) -> Started:
    topic = _refused_request(message) or await find_topic(broker, named)
    if isinstance(topic, ErrorCode):
        topic = _Refused(topic)
    if isinstance(topic, _Refused):
        return [(each.index, topic) for each in named.partition_data]
    return [(each.index, _begin_partition(broker, topic, each)) for each in named.partition_data]


def _refused_request(message: Any) -> _Refused | None:
    if message.transactional_id is not None:
        return _Refused(ErrorCode.transactional_id_authorization_failed, _NO_TRANSACTIONS)
    if message.acks not in _ACKS:
        return _Refused(ErrorCode.invalid_required_acks, "acks is -1, 0 or 1")
    return None


def _begin_partition(broker: Broker, topic: Topic, sent: Any) -> _Taken | _Refused:
    config = TopicConfig.of(topic.config)
    append_time_ms = broker.clock.wall_ms() if config.append_time else None
    try:
        partition = find_partition(topic, sent.index)
        batches = check(sent.records or b"", max_message_bytes=broker.max_message_bytes(topic))
        refused = _refused_batches(batches, config)
    except LakestreamError as error:
        return _Refused(error_code(error), str(error))
    if refused is not None:
        return refused
    if append_time_ms is not None:
        batches = [restamp_append_time(batch, append_time_ms) for batch in batches]
    append = broker.log.writer_for(topic).append(partition, batches)
    # Tasks start in the order they are made, and the writer takes batches before it first waits.
    return _Taken(asyncio.create_task(append), append_time_ms)


def _refused_batches(batches: list[CheckedBatch], config: TopicConfig) -> _Refused | None:
    for batch in batches:
        if batch.header.transactional:
            return _Refused(ErrorCode.invalid_txn_state, _NO_TRANSACTIONS)
        if batch.header.attributes & APPEND_TIME_FLAG and not config.append_time:
            return _Refused(
                ErrorCode.invalid_timestamp, "only the broker gives append time, by topic setting"
            )
        if config.compacted and not _all_keyed(batch):
            return _Refused(
                ErrorCode.invalid_record, "a compacted topic needs a key on each record"
            )
    return None


def _all_keyed(batch: CheckedBatch) -> bool:
    records = decode_records(batch.data, batch.header)
    return all(record.key is not None for record in records)


async def _finish(request: Request, started: list[tuple[Any, Started]]) -> ResponsePayload | None:
    outcomes = [
        (named, [await _outcome(partition, each) for partition, each in own])
        for named, own in started
    ]
    if request.message.acks == 0:
        _close_on_error(outcomes)
        return None
    response: ResponsePayload = request.respond(
        "ProduceResponse",
        responses=tuple(
            request.respond(
                "TopicProduceResponse",
                **topic_names(named),
                partition_responses=tuple(_describe(request, each) for each in own),
            )
            for named, own in outcomes
        ),
        throttle_time=timedelta(0),
        node_endpoints=(),
    )
    return response


async def _outcome(partition: int, started: _Taken | _Refused) -> _Outcome:
    """The first batch that was refused decides; otherwise the first batch's offset."""
    if isinstance(started, _Refused):
        return _Outcome(partition, started.code, message=started.message)
    try:
        answers = await started.answers
    except LakestreamError as error:
        return _Outcome(partition, error_code(error), message=str(error))
    for answer in answers:
        code = VERDICT_MAP[answer.verdict]
        if code is not ErrorCode.none:
            return _Outcome(partition, code)
    return _Outcome(partition, ErrorCode.none, answers[0].base_offset, started.append_time_ms)


def _close_on_error(outcomes: list[tuple[Any, list[_Outcome]]]) -> None:
    """Nobody is told with acks=0, so the connection is closed: the client looks for the cause."""
    for _, own in outcomes:
        for each in own:
            if each.code is not ErrorCode.none:
                raise Rejected(
                    f"a batch sent with acks=0 failed: {each.message or each.code.name}",
                    partition=each.partition,
                )


def _describe(request: Request, outcome: _Outcome) -> Any:
    time_ms = outcome.append_time_ms
    return request.respond(
        "PartitionProduceResponse",
        index=outcome.partition,
        error_code=outcome.code,
        base_offset=outcome.base_offset,
        log_append_time=None if time_ms is None else _EPOCH + timedelta(milliseconds=time_ms),
        log_start_offset=_NO_OFFSET,
        record_errors=(),
        error_message=outcome.message,
    )
