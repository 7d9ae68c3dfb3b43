"""What a broker is told to allow, and what a client then meets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode

from lakestream_spark.ingress.handlers import create_topics, metadata
from tests.support.asking import TIMEOUT, Asking
from tests.support.embedded import embedded_lake
from tests.support.kafka import Sent, consume, produce
from tests.support.raw_fetch import fetched
from tests.support.wire import Wire


async def _asked_for(wire: Wire, name: str) -> Any:
    """The topic in the answer to a Metadata request that may create it."""
    api = Asking(wire, metadata.API_KEY, 9)
    body = await api.ask(
        "MetadataRequest",
        topics=(api.part("MetadataRequestTopic", name=name),),
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return body.topics[0]


async def test_topics_get_as_many_partitions_as_the_broker_gives_by_default(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path, more={"broker.num_partitions": "3"}) as lake:
        wire = await Wire.connect(lake.address.port)
        assert len((await _asked_for(wire, "by-asking")).partitions) == 3
        api = Asking(wire, create_topics.API_KEY, 5)
        topic = api.part(
            "CreatableTopic",
            name="by-creating",
            num_partitions=-1,
            replication_factor=-1,
            assignments=(),
            configs=(),
        )
        await api.ask("CreateTopicsRequest", topics=(topic,), validate_only=False, **TIMEOUT)
        assert (await lake.metadata.topics.get("by-creating")).partitions == 3
        await wire.close()


async def test_no_topic_is_made_by_asking_when_the_broker_must_not(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path, more={"broker.auto_create_topics_enable": "false"}) as lake:
        wire = await Wire.connect(lake.address.port)
        answer = await _asked_for(wire, "orders")
        assert answer.error_code is ErrorCode.unknown_topic_or_partition
        assert await lake.metadata.topics.list() == []
        await wire.close()


async def test_batches_are_bounded_by_the_broker_and_by_the_topic_that_sets_its_own(
    tmp_path: Path,
) -> None:
    async with embedded_lake(tmp_path, more={"broker.message_max_bytes": "1000"}) as lake:
        await lake.metadata.topics.create("own", config={"max.message.bytes": "5000"})
        large = [Sent(None, b"v" * 2000)]
        with pytest.raises(KafkaException) as refused:
            await asyncio.to_thread(produce, lake.bootstrap, "orders", large)
        assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
        assert await asyncio.to_thread(produce, lake.bootstrap, "own", large) == [0]


async def test_an_answer_to_a_fetch_is_bounded_whatever_the_client_asks_for(
    tmp_path: Path,
) -> None:
    async with embedded_lake(tmp_path, more={"broker.fetch_max_bytes": "1500"}) as lake:
        for _ in range(3):
            await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"v" * 1000)])
        wire = await Wire.connect(lake.address.port)
        # So many are never there: it is answered at once because no more would fit.
        data = await fetched(wire, "orders", min_bytes=10_000_000, max_bytes=100_000_000)
        assert 1000 < len(data) < 2000
        await wire.close()
        got = await asyncio.to_thread(consume, lake.bootstrap, "orders", offset=0, count=3)
        assert [record.offset for record in got] == [0, 1, 2]
