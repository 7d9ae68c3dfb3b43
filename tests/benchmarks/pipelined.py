"""A bare connection that keeps a number of Produce requests in flight and times each of them."""

import asyncio
import os
import time
from collections import deque
from datetime import timedelta
from typing import Any, Final

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from tests.benchmarks.brokers import PARTITIONS
from tests.support.batches import make_batch
from tests.support.wire import Wire

_PRODUCE: Final = 0
_VERSION: Final = 9
_RECORDS: Final = 16
_WITHIN_S: Final = 60.0


def _request(topic: str, partition: int) -> Any:
    made = load_payload_module(_PRODUCE, _VERSION, EntityType.request)
    records = make_batch([os.urandom(1_000) for _ in range(_RECORDS)])
    data = made.PartitionProduceData(index=partition, records=records)
    return made.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=30),
        topic_data=(made.TopicProduceData(name=topic, partition_data=(data,)),),
    )


async def acks_ms(bootstrap: str, topic: str, in_flight: int, seconds: float) -> list[float]:
    """The milliseconds from the sending of each request to its answer."""
    requests = [_request(topic, partition) for partition in range(PARTITIONS)]
    wire = await Wire.connect(int(bootstrap.rpartition(":")[2]))
    for request in requests:
        await _until_taken(wire, request)
    sent: deque[float] = deque()
    found: list[float] = []
    number = 0
    deadline = time.monotonic() + seconds
    try:
        while sent or time.monotonic() < deadline:
            while len(sent) < in_flight and time.monotonic() < deadline:
                sent.append(time.monotonic())
                await wire.send(requests[number % PARTITIONS], number)
                number += 1
            code = await _answer(wire)
            found.append((time.monotonic() - sent.popleft()) * 1_000)
            assert code is ErrorCode.none, code
    finally:
        await wire.close()
    return found


async def _until_taken(wire: Wire, request: Any) -> None:
    """A new partition of Kafka has no leader for a moment."""
    async with asyncio.timeout(_WITHIN_S):
        await wire.send(request)
        while await _answer(wire) is not ErrorCode.none:
            await asyncio.sleep(0.05)
            await wire.send(request)


async def _answer(wire: Wire) -> ErrorCode:
    async with asyncio.timeout(_WITHIN_S):
        _, body = await wire.receive(_PRODUCE, _VERSION)
    code: ErrorCode = body.responses[0].partition_responses[0].error_code
    return code
