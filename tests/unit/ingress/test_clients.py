import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from lakestream_spark.app import RunningBroker
from lakestream_spark.kafka.batch import walk
from lakestream_spark.kafka.codecs import Codec
from tests.support.kafka import Sent, consume, produce
from tests.support.raw_fetch import fetched
from tests.support.wire import Wire


@pytest.fixture
def consumer(lake: RunningBroker) -> Iterator[Consumer]:
    opened = Consumer({"bootstrap.servers": lake.bootstrap, "group.id": "unused"})
    yield opened
    opened.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_records_come_back_from_the_wal_as_sent(
    lake: RunningBroker, codec: str, idempotent: bool
) -> None:
    sent = [Sent(b"k%d" % n, b"v" * n, [("h", None)], n + 1) for n in range(20)]
    config = {"compression.type": codec, "enable.idempotence": idempotent}
    offsets = await asyncio.to_thread(lambda: produce(lake.bootstrap, "orders", sent, **config))
    assert offsets == list(range(20))
    got = await asyncio.to_thread(consume, lake.bootstrap, "orders", offset=5, count=15)
    assert [(r.offset, r.key, r.value, r.headers, r.timestamp[1]) for r in got] == [
        (n, s.key, s.value, [("h", None)], s.timestamp_ms) for n, s in enumerate(sent)
    ][5:]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_batches_are_compressed_as_the_client_was_told(
    lake: RunningBroker, wire: Wire, codec: str
) -> None:
    sent = [Sent(None, b"v" * 10_000)]
    await asyncio.to_thread(
        lambda: produce(lake.bootstrap, "orders", sent, **{"compression.type": codec})
    )
    data = await fetched(wire, "orders")
    ((_, header),) = walk(data, where="test")
    assert header.codec == Codec[codec.upper()]


async def test_consumer_learns_the_ends_and_offsets_by_time(
    lake: RunningBroker, consumer: Consumer
) -> None:
    sent = [Sent(None, b"v", timestamp_ms=time) for time in (100, 300, 200)]
    await asyncio.to_thread(produce, lake.bootstrap, "orders", sent)
    partition = TopicPartition("orders", 0)
    ends = await asyncio.to_thread(consumer.get_watermark_offsets, partition, 60)
    assert ends == (0, 3)
    for time, offset in ((50, 0), (150, 1), (300, 1), (301, -1)):
        wanted = TopicPartition("orders", 0, time)
        (found,) = await asyncio.to_thread(consumer.offsets_for_times, [wanted], 60)
        assert found.offset == offset


async def test_offset_beyond_the_log_is_refused(lake: RunningBroker) -> None:
    await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"v")])
    with pytest.raises(KafkaException, match="AUTO_OFFSET_RESET"):
        await asyncio.to_thread(consume, lake.bootstrap, "orders", offset=9, count=1)


async def test_waiting_fetch_returns_when_a_record_comes(lake: RunningBroker) -> None:
    await lake.metadata.topics.create("orders")
    waiting = asyncio.create_task(
        asyncio.to_thread(consume, lake.bootstrap, "orders", offset=0, count=1)
    )
    await asyncio.sleep(0.3)
    await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"late")])
    (received,) = await waiting
    assert received.value == b"late"
