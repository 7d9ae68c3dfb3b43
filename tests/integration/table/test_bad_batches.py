"""Batches that cannot become rows, and bytes that were damaged: nobody else is hurt."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from crc32c import crc32c
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta

from lakestream_spark.app import RunningBroker
from lakestream_spark.cli.verify import run_verify
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.kafka.batch import CRC_START, HEADER_BYTES
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.verify.pinned import Asked
from tests.support.batches import make_batch
from tests.support.embedded import catalog_spec, embedded_lake, lake_settings
from tests.support.kafka import Sent, consume, produce
from tests.support.sparkless import SparklessCompaction
from tests.support.wire import Wire

CRC_AT = 17


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path) as embedded:
        yield embedded


def contradictory(values: list[bytes]) -> bytes:
    """A batch whose CRC is right and whose first record is longer than the batch."""
    batch = bytearray(make_batch(values))
    batch[HEADER_BYTES] = 0x7E  # the varint 63, more than is left
    batch[CRC_AT:CRC_START] = crc32c(memoryview(batch)[CRC_START:]).to_bytes(4, "big")
    return bytes(batch)


def produce_request(batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=i32(0), records=Records(batch))
    return ProduceRequest(
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=60)),
        topic_data=(TopicProduceData(name=TopicName("orders"), partition_data=(data,)),),
    )


async def send(lake: RunningBroker, batch: bytes) -> None:
    client = await Wire.connect(lake.address.port)
    try:
        await client.send(produce_request(batch))
        _, answer = await client.receive(0, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    finally:
        await client.close()


def compact(folder: Path) -> None:
    compaction = SparklessCompaction(folder, die_at=None, stop_at=None)
    try:
        compaction.run_until_drained()
    finally:
        compaction.close()


def offsets(folder: Path, topic: Topic) -> list[int]:
    with closing(StreamCatalog.open(catalog_spec(folder))) as tables:
        table = tables.load(tables.layout(topic.id, topic.name))
        return [] if table is None else sorted(table.scan().to_arrow()[OFFSET].to_pylist())


@pytest.mark.long
async def test_a_batch_that_contradicts_its_header_is_set_aside_with_its_bytes(lake, tmp_path):
    topic = await lake.metadata.topics.create("orders")
    bad = contradictory([b"c", b"d", b"e"])
    for batch in (make_batch([b"a", b"b"]), bad, make_batch([b"f"])):
        await send(lake, batch)
    await asyncio.to_thread(compact, tmp_path)
    assert offsets(tmp_path, topic) == [0, 1, 5]
    assert (await lake.metadata.tables.ends(topic.id))[0].table_end == 6
    (aside,) = await lake.metadata.tables.quarantined(topic.id)
    assert (aside.partition, aside.first, aside.next) == (0, 2, 5)
    kept = Path(aside.path.removeprefix("file://")).read_bytes()
    assert kept[CRC_AT:] == bad[CRC_AT:]
    got = await asyncio.to_thread(consume, lake.bootstrap, "orders", offset=0, count=3)
    assert [(each.offset, each.value) for each in got] == [(0, b"a"), (1, b"b"), (5, b"f")]
    certificate = await asyncio.to_thread(run_verify, lake_settings(tmp_path), topic.name, Asked())
    (hole,) = certificate.partitions[0].holes
    assert hole.ranges == ((2, 5),)
    assert hole.why == f"set aside, because {aside.reason}; the bytes are at {aside.path}"


@pytest.mark.long
async def test_a_topic_of_bad_batches_alone_moves_on_without_a_file(lake, tmp_path):
    topic = await lake.metadata.topics.create("orders")
    await send(lake, contradictory([b"a"]))
    await asyncio.to_thread(compact, tmp_path)
    assert (await lake.metadata.tables.ends(topic.id))[0].table_end == 1
    assert offsets(tmp_path, topic) == []
    await send(lake, make_batch([b"b"]))
    await asyncio.to_thread(compact, tmp_path)
    assert offsets(tmp_path, topic) == [1]


@pytest.mark.long
async def test_damaged_bytes_stop_their_partition_alone_until_they_are_restored(lake, tmp_path):
    damaged = await lake.metadata.topics.create("damaged")
    await asyncio.to_thread(produce, lake.bootstrap, "damaged", [Sent(None, b"v" * 100)])
    place = TopicPartition(damaged.id, 0)
    (extent,) = (await lake.metadata.extents.locate(place, 0, 1)).extents
    path = tmp_path / segment_key(extent.segment_id)
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[extent.position + extent.length - 1] ^= 1
    path.write_bytes(spoiled)
    other = await lake.metadata.topics.create("orders")
    await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"v")])

    compaction = SparklessCompaction(tmp_path, die_at=None, stop_at=None)
    running = asyncio.create_task(asyncio.to_thread(compaction.run_until_drained))
    try:
        while not (problems := await lake.metadata.problems.list()):
            await asyncio.sleep(0.05)
        while not (await lake.metadata.tables.ends(other.id))[0].table_end:
            await asyncio.sleep(0.05)
        (problem,) = problems
        assert (problem.topic_id, problem.partition, problem.offset) == (damaged.id, 0, 0)
        assert str(extent.segment_id) in problem.sentence
        assert "restore" in problem.remedy
        path.write_bytes(whole)
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.to_thread(compaction.close)
    assert await lake.metadata.problems.list() == []
    assert offsets(tmp_path, damaged) == [0]
