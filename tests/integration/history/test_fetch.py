"""Fetch requests of several partitions that are in the table."""

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from lakestream_spark.history.remote import HistoryProcess
from lakestream_spark.ingress.handlers import fetch
from lakestream_spark.kafka.pieces import Piece
from lakestream_spark.metadata.topics import Topic
from tests.support.embedded import embedded_lake
from tests.support.history import records_in
from tests.support.raw_fetch import VERSION, fetch_request
from tests.support.sparkless import SparklessCompaction
from tests.support.wire import Wire

TOPIC = "orders"
PARTITIONS = 3
pytestmark = pytest.mark.long


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"%d" % partition, partition=partition)
    assert producer.flush(60) == 0


def keep_busy(bootstrap: str, partition: int) -> None:
    """More in the WAL than an answer of the test holds."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for _ in range(5):
        producer.produce(TOPIC, bytes(1000), partition=partition)
        assert producer.flush(60) == 0


def with_offsets(request: Any, offsets: dict[int, int]) -> Any:
    """The same request from these offsets on, by partition."""
    (topic,) = request.topics
    wanted = tuple(replace(p, fetch_offset=offsets[p.partition]) for p in topic.partitions)
    return replace(request, topics=(replace(topic, partitions=wanted),))


def compact(folder: Path) -> None:
    compaction = SparklessCompaction(folder)
    compaction.run_until_drained()
    compaction.close()


async def test_partitions_of_one_fetch_are_read_at_the_same_time(tmp_path: Path) -> None:
    together = asyncio.Barrier(PARTITIONS)
    plain = HistoryProcess.read

    async def read(
        history: HistoryProcess, topic: Topic, partition: int, offset: int, max_bytes: int
    ) -> Piece:
        # Passed only when all have come here.
        async with asyncio.timeout(60):
            await together.wait()
        return await plain(history, topic, partition, offset, max_bytes)

    async with embedded_lake(tmp_path) as lake:
        await lake.metadata.topics.create(TOPIC, partitions=PARTITIONS)
        await asyncio.to_thread(produce, lake.bootstrap)
        await asyncio.to_thread(compact, tmp_path)
        wire = await Wire.connect(lake.address.port)
        with patch.object(HistoryProcess, "read", read):
            await wire.send(fetch_request(wire, TOPIC, partitions=range(PARTITIONS)))
            _, body = await wire.receive(fetch.API_KEY, VERSION)
        await wire.close()
    (answer,) = body.responses
    assert [each.partition_index for each in answer.partitions] == list(range(PARTITIONS))
    values = [[r.value for r in records_in(each.records)] for each in answer.partitions]
    assert values == [[b"0"], [b"1"], [b"2"]]


async def test_a_partition_in_the_table_has_its_turn_beside_a_busy_tail(tmp_path: Path) -> None:
    """In the client's order, also when the tail alone would fill the answer."""
    served: dict[tuple[int, ...], list[int]] = {}
    async with embedded_lake(tmp_path) as lake:
        await lake.metadata.topics.create(TOPIC, partitions=PARTITIONS)
        await asyncio.to_thread(produce, lake.bootstrap)
        await asyncio.to_thread(compact, tmp_path)
        wire = await Wire.connect(lake.address.port)
        await asyncio.to_thread(keep_busy, lake.bootstrap, 1)
        # The reader runs from now on: new records would not wait for its start.
        await answered(wire, fetch_request(wire, TOPIC))
        for order in ((0, 1), (1, 0)):
            request = fetch_request(wire, TOPIC, partitions=order, max_bytes=1000)
            own = await answered(wire, with_offsets(request, {0: 0, 1: 1}))
            served[order] = [each.partition_index for each in own if each.records]
        await wire.close()
    assert served == {(0, 1): [0], (1, 0): [1]}


async def test_new_records_do_not_wait_for_a_table_that_is_slow(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path) as lake:
        await lake.metadata.topics.create(TOPIC, partitions=PARTITIONS)
        await asyncio.to_thread(produce, lake.bootstrap)
        await asyncio.to_thread(compact, tmp_path)
        wire = await Wire.connect(lake.address.port)
        await asyncio.to_thread(keep_busy, lake.bootstrap, 1)
        request = fetch_request(wire, TOPIC, partitions=(0, 1))
        request = with_offsets(request, {0: 0, 1: 1})
        await lake.history.start_ahead()
        assert lake.history.pid is not None
        os.kill(lake.history.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            old, new = await answered(wire, request)
            assert time.monotonic() - began < 10
        finally:
            os.kill(lake.history.pid, signal.SIGCONT)
        assert (old.error_code, len(old.records)) == (ErrorCode.none, 0)
        assert len(records_in(new.records)) == 5
        async with asyncio.timeout(60):
            while not old.records:
                old, new = await answered(wire, request)
        assert [record.value for record in records_in(old.records)] == [b"0"]
        assert len(records_in(new.records)) == 5
        await wire.close()


async def answered(wire: Wire, request: Any) -> tuple[Any, ...]:
    """The partitions of the answer."""
    await wire.send(request)
    _, body = await wire.receive(fetch.API_KEY, VERSION)
    partitions: tuple[Any, ...] = body.responses[0].partitions
    return partitions


async def test_a_broker_that_finds_rows_in_a_table_starts_its_reader_before_anybody_asks(
    tmp_path: Path,
) -> None:
    async with embedded_lake(tmp_path) as lake:
        await lake.metadata.topics.create(TOPIC, partitions=PARTITIONS)
        await asyncio.to_thread(produce, lake.bootstrap)
        await asyncio.sleep(0.2)
        assert lake.history.pid is None  # Nothing is in a table, so nothing is started for it.
    await asyncio.to_thread(compact, tmp_path)
    async with embedded_lake(tmp_path) as lake, asyncio.timeout(30):
        while lake.history.pid is None:
            await asyncio.sleep(0.01)
