"""Four clients that read a topic from given offsets to its ends, and say where they stood at last.

Each ends when it stands at every end, or fails by its time limit: a client that waits at a hole.
"""

import asyncio
import re
import time
from contextlib import closing

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AioPlace
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat import kafka_python
from tests.compat.clusters import unique
from tests.compat.holes import ENDS, Reading, Starts
from tests.support.kafka_tools import CONSOLE_CONSUMER, running_tool

WITHIN_S = 120.0
_COMMITTED = "read_committed"


def by_librdkafka(bootstrap: str, topic: str, starts: Starts) -> Reading:
    """Where it stands is told by the event that it reached the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": _COMMITTED,
        }
    )
    seen: dict[int, list[int]] = {partition: [] for partition in starts}
    stood: dict[int, int] = {}
    try:
        consumer.assign([TopicPartition(topic, p, start) for p, start in starts.items()])
        deadline = time.monotonic() + WITHIN_S
        while len(stood) < len(starts):
            assert time.monotonic() < deadline, f"after {seen} it stands at {stood}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            partition, offset, error = message.partition(), message.offset(), message.error()
            assert partition is not None
            assert offset is not None
            if error is None:
                seen[partition].append(offset)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                stood[partition] = offset
    finally:
        consumer.close()
    return Reading(seen, stood)


def by_kafka_python(bootstrap: str, topic: str, starts: Starts) -> Reading:
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="none",
        isolation_level=_COMMITTED,
        **kafka_python.PATIENT,
    )
    seen: dict[int, list[int]] = {partition: [] for partition in starts}
    with closing(consumer):
        places = {p: kafka_python.TopicPartition(topic, p) for p in starts}
        consumer.assign(list(places.values()))
        for partition, start in starts.items():
            consumer.seek(places[partition], start)
        deadline = time.monotonic() + WITHIN_S
        while (stood := {p: consumer.position(place) for p, place in places.items()}) != {
            p: ENDS[p] for p in starts
        }:
            assert time.monotonic() < deadline, f"after {seen} it stands at {stood}"
            for place, records in consumer.poll(timeout_ms=200).items():
                seen[place.partition] += [record.offset for record in records]
    return Reading(seen, stood)


def by_aiokafka(bootstrap: str, topic: str, starts: Starts) -> Reading:
    async def read() -> Reading:
        seen: dict[int, list[int]] = {partition: [] for partition in starts}
        places = {p: AioPlace(topic, p) for p in starts}
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="none", isolation_level=_COMMITTED
        ) as consumer:
            consumer.assign(list(places.values()))
            for partition, start in starts.items():
                consumer.seek(places[partition], start)
            deadline = time.monotonic() + WITHIN_S
            while (stood := {p: await consumer.position(places[p]) for p in starts}) != {
                p: ENDS[p] for p in starts
            }:
                assert time.monotonic() < deadline, f"after {seen} it stands at {stood}"
                for place, records in (await consumer.getmany(timeout_ms=200)).items():
                    seen[place.partition] += [record.offset for record in records]
        return Reading(seen, stood)

    return asyncio.run(read())


def by_java(bootstrap: str, topic: str, starts: Starts) -> Reading:
    """The console consumer; where it stands is what its group commits."""
    group = unique("holes")
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    _begin_at(bootstrap, group, topic, starts)
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group]
    for setting in ("auto.commit.interval.ms=100", "auto.offset.reset=none"):
        arguments += ["--command-property", setting]
    arguments += ["--isolation-level", _COMMITTED]
    for shown in ("partition", "offset"):
        arguments += ["--formatter-property", f"print.{shown}=true"]
    with running_tool(CONSOLE_CONSUMER, *arguments) as consumer:
        deadline = time.monotonic() + WITHIN_S
        while (stood := _committed(admin, group, topic, starts)) != {p: ENDS[p] for p in starts}:
            assert consumer.poll() is None, consumer.communicate()
            assert time.monotonic() < deadline, f"it stands at {stood}"
            time.sleep(0.1)
        consumer.terminate()
        shown, _ = consumer.communicate(timeout=WITHIN_S)
    seen: dict[int, list[int]] = {partition: [] for partition in starts}
    for partition, offset in re.findall(r"Partition:(\d+)\tOffset:(\d+)", shown):
        seen[int(partition)].append(int(offset))
    return Reading(seen, stood)


def _begin_at(bootstrap: str, group: str, topic: str, starts: Starts) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, partition, start) for partition, start in starts.items()]
    try:
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


def _committed(admin: AdminClient, group: str, topic: str, starts: Starts) -> dict[int, int]:
    places = [TopicPartition(topic, partition) for partition in starts]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    found = admin.list_consumer_group_offsets(asked)[group].result(WITHIN_S).topic_partitions
    return {each.partition: each.offset for each in found}
