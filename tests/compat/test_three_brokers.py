"""Three brokers over one store: each client is told of one of them, finds the others and uses all.

What always holds after a script: every broker that is named as the leader of a partition was asked
to append to the log and to read from it, and nothing was lost or seen twice.
"""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Consumer, Producer

from tests.compat.clusters import unique
from tests.compat.confluent_admin import AdminClient, create_topic, until
from tests.compat.kafka_python import (
    PATIENT,
    WITHIN_S,
    KafkaConsumer,
    KafkaProducer,
    sockets_it_forgets,
)
from tests.compat.lakes import QUICK_FLUSH
from tests.support import kafka_tools as tools
from tests.support.franz import franz_binary
from tests.support.ingress_process import Listening, ingress
from tests.support.kafka_tools import tool

__all__ = ["sockets_it_forgets"]

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PARTITIONS: Final = 24
RECORDS: Final = 240
VALUES: Final = {f"value-{n}" for n in range(RECORDS)}


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[Listening]]:
    """Three that know of each other."""
    with (
        TemporaryDirectory(prefix="lakestream-compat-") as folder,
        ingress(Path(folder), *QUICK_FLUSH, "--workers", "3") as process,
    ):
        found = process.ready(3)
        for each in found:
            admin = AdminClient({"bootstrap.servers": each.kafka})
            until(lambda: len(admin.list_topics(timeout=WITHIN_S).brokers) == 3)  # noqa: B023
        yield found
        assert process.stop() == 0, "".join(process.log)


@pytest.fixture
def topic(brokers: list[Listening]) -> str:
    name = unique("three")
    create_topic(AdminClient({"bootstrap.servers": brokers[1].kafka}), name, PARTITIONS)
    return name


def leaders(brokers: list[Listening], topic: str) -> set[int]:
    admin = AdminClient({"bootstrap.servers": brokers[2].kafka})
    partitions = admin.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions
    assert len(partitions) == PARTITIONS
    return {partition.leader for partition in partitions.values()}


def asked(broker: Listening, api: str) -> float:
    """How many requests of an API the broker has answered."""
    _, page = broker.get("/metrics")
    found = re.search(rf'^lakestream_request_seconds_count{{api="{api}"}} (\S+)$', page, re.M)
    return float(found[1]) if found else 0.0


@contextmanager
def all_are_used(brokers: list[Listening], topic: str) -> Iterator[str]:
    """Gives the address of one broker; at the end every leader must have had its part."""
    wanted = [each for each in brokers if each.node_id in leaders(brokers, topic)]
    assert len(wanted) > 1
    before = {(each, api): asked(each, api) for each in wanted for api in ("Produce", "Fetch")}
    yield brokers[0].kafka
    for (each, api), count in before.items():
        assert asked(each, api) > count, f"broker {each.node_id} got no {api}"


def test_confluent(brokers: list[Listening], topic: str) -> None:
    with all_are_used(brokers, topic) as bootstrap:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for number, value in enumerate(VALUES):
            producer.produce(topic, value, partition=number % PARTITIONS)
        assert producer.flush(WITHIN_S) == 0
        options = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(options)
        with closing(consumer):
            consumer.subscribe([topic])
            got: list[str] = []
            deadline = time.monotonic() + WITHIN_S
            while len(got) < RECORDS and time.monotonic() < deadline:
                got += [(each.value() or b"").decode() for each in consumer.consume(RECORDS, 1.0)]
        assert sorted(got) == sorted(VALUES)


def test_kafka_python(brokers: list[Listening], topic: str) -> None:
    with all_are_used(brokers, topic) as bootstrap:
        with closing(KafkaProducer(bootstrap_servers=bootstrap, **PATIENT)) as producer:
            sent = [
                producer.send(topic, value.encode(), partition=number % PARTITIONS)
                for number, value in enumerate(VALUES)
            ]
            for each in sent:
                each.get(WITHIN_S)
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            consumer_timeout_ms=WITHIN_S * 1000,
            **PATIENT,
        )
        with closing(consumer):
            got = [next(consumer).value.decode() for _ in range(RECORDS)]
        assert sorted(got) == sorted(VALUES)


async def test_aiokafka(brokers: list[Listening], topic: str) -> None:
    with all_are_used(brokers, topic) as bootstrap:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number, value in enumerate(VALUES):
                await producer.send(topic, value.encode(), partition=number % PARTITIONS)
            await asyncio.wait_for(producer.flush(), WITHIN_S)
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            async with asyncio.timeout(WITHIN_S):
                got = [(await consumer.getone()).value.decode() for _ in range(RECORDS)]
        assert sorted(got) == sorted(VALUES)


def test_java(brokers: list[Listening], topic: str) -> None:
    with all_are_used(brokers, topic) as bootstrap:
        server = ("--bootstrap-server", bootstrap, "--topic", topic)
        # By their keys, which hash to every partition.
        typed = "".join(f"key-{value}\t{value}\n" for value in sorted(VALUES))
        tool(tools.CONSOLE_PRODUCER, *server, "--reader-property", "parse.key=true", typed=typed)
        read = tool(
            tools.CONSOLE_CONSUMER,
            *(*server, "--group", topic, "--from-beginning"),
            *("--max-messages", str(RECORDS), "--timeout-ms", str(WITHIN_S * 1000)),
        )
        assert sorted(read.lines) == sorted(VALUES)


def test_franz_go(brokers: list[Listening], topic: str) -> None:
    with all_are_used(brokers, topic) as bootstrap:
        done = subprocess.run(
            [str(franz_binary()), "spread", bootstrap, topic],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"values": 100, "partitions": PARTITIONS}
