"""Fetch, v4–v18.

Behaviour: below the table end from Parquet, from there on from the WAL; whole batches, of which the
first is sent even when it is above the limits. Waits up to `max_wait` for `min_bytes` without
asking any store, and wakes for batches committed through any broker, or when its client is gone.
New records wait a moment at most for a table that is slow; its part comes with a later answer.
Version notes: from v7 sessions; from v9 a leader epoch, which is always 0 here; from v13 topics by
id; v16–v18 as v15.
Not done: aborted transactions (there are none); replicas are refused.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.errors import error_code
from lakestream_spark.ingress.fetch_sessions import NO_SESSION, Opened, Shown, TopicKey, Want
from lakestream_spark.ingress.lookup import find_partition, find_topic_by_key
from lakestream_spark.ingress.messages import Request
from lakestream_spark.kafka.batch import HEADER, BatchHeader
from lakestream_spark.kafka.pieces import Piece, Pieces
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.wal.ports import PartitionEnds
from lakestream_spark.wal.reader import ReadRequest

API_KEY: Final = 1
VERSIONS: Final = range(4, 19)

_UNKNOWN_ENDS: Final = PartitionEnds(-1, -1, -1, -1)
_LEADER_EPOCH: Final = 0
_NOTHING: Final = Pieces()
_LEAST_SHARE: Final = 128 * 1024
_NEW_RECORDS_WAIT_S: Final = 2.0
"""For tables; less would let a busy reader never come to answer."""


class _Read(NamedTuple):
    """What one partition gives."""

    want: Want
    code: ErrorCode
    ends: PartitionEnds = _UNKNOWN_ENDS
    data: Pieces = _NOTHING
    cut: bool = False
    """There is more than fits."""

    @property
    def readable(self) -> int:
        """The bytes that count against `min_bytes`: who leaves some behind need not wait for more,
        or a consumer whose limits are near its `min_bytes` would wait at every answer."""
        return max(len(self.data), self.want.max_bytes) if self.cut else len(self.data)


class _Found(NamedTuple):
    """A wanted partition that exists."""

    want: Want
    topic: Topic
    partition: TopicPartition


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    if _replica_id(message) != -1:
        return _respond(request, ErrorCode.invalid_request, NO_SESSION, [])
    opened = broker.sessions.open(message)
    if isinstance(opened, ErrorCode):
        return _respond(request, opened, NO_SESSION, [])
    found, refused = await _find(broker, opened.wants)
    reads = await _read_or_wait(broker, request, found, bool(refused))
    shown = _choose(opened, [*reads, *refused])
    return _respond(request, ErrorCode.none, opened.session_id, shown)


async def _find(broker: Broker, wants: Sequence[Want]) -> tuple[list[_Found], list[_Read]]:
    topics: dict[TopicKey, Topic | ErrorCode] = {}
    found: list[_Found] = []
    refused: list[_Read] = []
    for want in wants:
        topic = topics.get(want.topic)
        if topic is None:
            topic = topics[want.topic] = await find_topic_by_key(broker, want.topic)
        if isinstance(topic, ErrorCode):
            refused.append(_Read(want, topic))
        elif want.leader_epoch > _LEADER_EPOCH:
            refused.append(_Read(want, ErrorCode.unknown_leader_epoch))
        else:
            try:
                found.append(_Found(want, topic, find_partition(topic, want.partition)))
            except LakestreamError as error:
                refused.append(_Read(want, error_code(error)))
    return found, refused


async def _read_or_wait(
    broker: Broker, request: Request, found: list[_Found], answer_now: bool
) -> list[_Read]:
    message, client = request.message, request.client
    loop = asyncio.get_running_loop()
    deadline = loop.time() + message.max_wait.total_seconds()
    max_bytes = min(message.max_bytes, broker.limits.max_fetch_bytes)
    # Watched before the first read: what is committed in between is not missed.
    with broker.tail.watch(each.partition for each in found) as watch:
        while True:
            reads = await _read_all(broker, found, max_bytes)
            failed = any(read.code is not ErrorCode.none for read in reads)
            enough = sum(read.readable for read in reads) >= min(message.min_bytes, max_bytes)
            left_s = deadline - loop.time()
            if answer_now or failed or enough or left_s <= 0 or client.departed:
                return reads
            ends = {
                each.partition: read.ends.high_watermark
                for each, read in zip(found, reads, strict=True)
            }
            with client.told(watch.wake):
                await watch.wait(ends, left_s)


async def _read_all(broker: Broker, found: list[_Found], max_bytes: int) -> list[_Read]:
    """The tails in one call, then what lies in tables, all at once, within the bytes left."""
    requests = [
        ReadRequest(each.partition, each.want.offset, each.want.max_bytes) for each in found
    ]
    tails = await broker.log.reader.read_many(requests, max_total_bytes=max_bytes)
    left = max_bytes - sum(0 if isinstance(t, LakestreamError) else len(t.pieces) for t in tails)
    reads: list[_Read] = []
    old: list[int] = []
    for each, tail in zip(found, tails, strict=True):
        if isinstance(tail, LakestreamError):
            reads.append(_Read(each.want, error_code(tail)))
            continue
        cut = tail.next_offset < tail.ends.high_watermark
        read = _Read(each.want, ErrorCode.none, tail.ends, tail.pieces, cut)
        if each.want.offset < tail.ends.table_end:
            old.append(len(reads))
        reads.append(read)
    tails_alone = list(reads)
    if old:
        left += _make_room(reads, old[0], min(_LEAST_SHARE, max_bytes) - left)
    # The others are served by the next fetch.
    old = old[: max(1, left // _LEAST_SHARE)] if left > 0 else []
    works = _table_reads(broker, found, reads, old, left)
    if works:
        has_new = any(read.data for read in tails_alone)
        await _wait(works.values(), _NEW_RECORDS_WAIT_S if has_new else None)
    if works and not any(work.done() for work in works.values()):
        reads = tails_alone
    for index, work in works.items():
        # The reader goes on with what is late, and the next fetch finds it made.
        reads[index] = work.result() if work.done() else reads[index]._replace(cut=True)
    return reads


def _make_room(reads: list[_Read], first: int, wanted: int) -> int:
    """How many bytes tails gave back that come after the first partition to be read from a table:
    in the client's order it comes first, and beside busy tails it would never have its turn."""
    room = 0
    for index in reversed(range(first + 1, len(reads))):
        if room >= wanted:
            break
        read = reads[index]
        if read.data:
            room += len(read.data)
            reads[index] = read._replace(data=_NOTHING, cut=True)
    return room


def _table_reads(
    broker: Broker, found: list[_Found], reads: list[_Read], old: list[int], left: int
) -> dict[int, asyncio.Task[_Read]]:
    """All of them at once, with even shares of the bytes left."""
    works: dict[int, asyncio.Task[_Read]] = {}
    for number, index in enumerate(old):
        own = min(found[index].want.max_bytes, left // (len(old) - number))
        left -= own
        work = _read_history(broker, found[index], reads[index], own)
        works[index] = asyncio.create_task(work, name="read-history")
    return works


async def _wait(works: Collection[asyncio.Task[_Read]], within_s: float | None) -> None:
    """Until all are done, or it is time to answer without the rest."""
    try:
        await asyncio.wait(works, timeout=within_s)
    finally:
        for work in works:
            work.cancel()


async def _read_history(broker: Broker, each: _Found, read: _Read, max_bytes: int) -> _Read:
    want = each.want
    try:
        data = await broker.log.history.read(each.topic, want.partition, want.offset, max_bytes)
        if _begins_with_a_hole(data, want.offset):
            # Erased, or gone with the log start that moved meanwhile: then the client is told.
            ends = (await broker.log.index.locate(each.partition, 0, 0)).ends
            if want.offset < ends.log_start:
                return read._replace(code=ErrorCode.offset_out_of_range, ends=ends)
    except LakestreamError as error:
        return read._replace(code=error_code(error))
    return read._replace(data=Pieces([data]))


def _begins_with_a_hole(data: Piece, offset: int) -> bool:
    first = BatchHeader(*HEADER.unpack_from(data))
    return first.base_offset > offset or first.record_count == 0


def _choose(opened: Opened, reads: list[_Read]) -> list[_Read]:
    """What the client must be told: everything, or in a session only what is new to it."""
    session = opened.session
    if session is None:
        return reads
    chosen: list[_Read] = []
    for read in reads:
        key = (read.want.topic, read.want.partition)
        borders = Shown(read.ends.high_watermark, read.ends.log_start)
        news = read.data or read.code is not ErrorCode.none or session.shown.get(key) != borders
        if news or not opened.incremental:
            chosen.append(read)
            session.shown[key] = borders
        if read.data:
            session.served(key)
    return chosen


def _respond(
    request: Request, code: ErrorCode, session_id: int, reads: list[_Read]
) -> ResponsePayload:
    by_topic: dict[TopicKey, list[_Read]] = {}
    for read in reads:
        by_topic.setdefault(read.want.topic, []).append(read)
    response: ResponsePayload = request.respond(
        "FetchResponse",
        throttle_time=timedelta(0),
        error_code=code,
        session_id=session_id,
        responses=tuple(
            request.respond(
                "FetchableTopicResponse",
                topic=None if isinstance(key, UUID) else key,
                topic_id=key if isinstance(key, UUID) else None,
                partitions=tuple(_describe(request, read) for read in own),
            )
            for key, own in by_topic.items()
        ),
        node_endpoints=(),
    )
    return response


def _describe(request: Request, read: _Read) -> Any:
    return request.respond(
        "PartitionData",
        partition_index=read.want.partition,
        error_code=read.code,
        high_watermark=read.ends.high_watermark,
        last_stable_offset=read.ends.last_stable,
        log_start_offset=read.ends.log_start,
        aborted_transactions=() if request.message.isolation_level == 1 else None,
        preferred_read_replica=-1,
        records=read.data,
    )


def _replica_id(message: Any) -> int:
    state = getattr(message, "replica_state", None)
    return int(message.replica_id if state is None else state.replica_id)
