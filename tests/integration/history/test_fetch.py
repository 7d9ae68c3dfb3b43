"""Fetch requests of several partitions that are in the table."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest
from confluent_kafka import Producer

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
