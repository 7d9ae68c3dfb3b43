"""aiokafka: producing, consuming, groups and administration."""

import asyncio

import pytest
from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]

from tests.compat.clusters import Cluster, unique

WITHIN_S = 120


@pytest.fixture
async def topic(cluster: Cluster) -> str:
    name = unique("aiokafka")
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 2, 1)])
        async with asyncio.timeout(WITHIN_S):  # Kafka tells of it a moment later
            while name not in await admin.list_topics():
                await asyncio.sleep(0.05)
    finally:
        await admin.close()
    return name


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_come_back_whole(
    cluster: Cluster, topic: str, codec: str | None, idempotent: bool
) -> None:
    headers = [("empty", b""), ("x", b"1")]
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        compression_type=codec,
        enable_idempotence=idempotent,
        acks="all",
    ) as producer:
        sent = [
            await producer.send(
                topic, str(n).encode(), b"key", 0, 1_700_000_000_000 + n, headers=headers
            )
            for n in range(100)
        ]
        offsets = [(await asyncio.wait_for(each, WITHIN_S)).offset for each in sent]
    assert offsets == list(range(100))
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 10)
        got = [await asyncio.wait_for(consumer.getone(), WITHIN_S) for _ in range(90)]
        assert [each.value for each in got] == [str(n).encode() for n in range(10, 100)]
        assert (got[0].timestamp, list(got[0].headers)) == (1_700_000_000_010, headers)
        found = await consumer.offsets_for_times({partition: 1_700_000_000_050})
        assert found[partition].offset == 50
        assert await consumer.end_offsets([partition]) == {partition: 100}


async def test_a_group_commits_rebalances_and_goes_on(cluster: Cluster, topic: str) -> None:
    group = unique("aiokafka")
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait(topic, str(number).encode(), partition=0)

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            heartbeat_interval_ms=300,
        )

    async with member() as first:
        got = [await asyncio.wait_for(first.getone(), WITHIN_S) for _ in range(4)]
        assert [each.value for each in got] == [b"0", b"1", b"2", b"3"]
        await first.commit()
        async with member() as second, asyncio.timeout(WITHIN_S):
            while not len(first.assignment()) == len(second.assignment()) == 1:
                await asyncio.sleep(0.1)
    async with member() as third:
        assert (await asyncio.wait_for(third.getone(), WITHIN_S)).value == b"4"
