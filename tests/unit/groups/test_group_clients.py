"""Groups of real clients over one broker: each record is read once, and offsets are kept."""

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import pytest
from aiokafka.errors import (  # type: ignore[import-untyped]
    CommitFailedError,
    IllegalStateError,
)
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from tests.support.asking import Asking
from tests.support.embedded import lake_with_groups
from tests.support.wire import Wire
from tests.unit.groups.conftest import SMALL

with warnings.catch_warnings():
    # It loads its messages by a function that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer  # type: ignore[import-untyped]
    from kafka import errors as kafka_errors

CHANGING = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
)
TOPIC, PARTITIONS, RECORDS = "orders", 6, 600
WITHIN_S = 200.0


@pytest.fixture
async def filled(lake: RunningBroker) -> RunningBroker:
    """A topic of six partitions with a hundred records each."""
    await lake.metadata.topics.create(TOPIC, partitions=PARTITIONS)
    await asyncio.to_thread(produce, lake.bootstrap, range(RECORDS))
    return lake


def produce(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(TOPIC, value=b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(120) == 0


class Seen:
    """What all members of a group read, in one list."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.by_member: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, member: str, value: bytes | None) -> None:
        with self._lock:
            self.values.append(int(value or b"-1"))
            self.by_member[member] = self.by_member.get(member, 0) + 1


def librdkafka(bootstrap: str, **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            **config,
        }
    )


def commit(consumer: Consumer) -> bool:
    """Commit what was read; False while the group changes, as applications must expect."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        # No offset: what was read belongs to another member by now.
        if error.args[0].code() not in (*CHANGING, KafkaError._NO_OFFSET):
            raise
        return False
    return True


@asynccontextmanager
async def polling(work: Callable[[threading.Event], None], members: int) -> AsyncIterator[None]:
    """So many threads that work until the block ends; the broker goes on while they stop."""
    stop = threading.Event()
    # A group of tasks: who fails ends the block at once.
    async with asyncio.TaskGroup() as running:
        for _ in range(members):
            running.create_task(asyncio.to_thread(work, stop))
        try:
            yield
        finally:
            stop.set()


async def until_committed(
    lake: RunningBroker, topic: str = TOPIC, each: int = 100, partitions: int = PARTITIONS
) -> None:
    """Wait until the group has committed all of the topic: the members go on until then."""
    wanted = [(topic, each)] * partitions
    found: list[tuple[str, int]] = []
    async with asyncio.timeout(WITHIN_S):
        while found != wanted:
            await asyncio.sleep(0.05)
            stored = await lake.metadata.group_offsets.fetch_all("g")
            found = [(name, one.offset) for name, one in stored]


async def until(condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_three_librdkafka_members_read_everything_and_commit_it(
    filled: RunningBroker, strategy: str
) -> None:
    seen = Seen()
    refused = count()

    def work(stop: threading.Event) -> None:
        consumer = librdkafka(filled.bootstrap, **{"partition.assignment.strategy": strategy})
        me = str(threading.get_ident())
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            seen.add(me, message.value())
            if not commit(consumer):
                next(refused)
        consumer.close()

    async with polling(work, 3):
        await until_committed(filled)
    assert set(seen.values) == set(range(RECORDS))
    # What could not be committed while the group changed is read once more, and nothing else.
    assert len(seen.values) <= RECORDS + next(refused)
    topic = await filled.metadata.topics.get(TOPIC)
    committed = await filled.metadata.group_offsets.fetch_all("g")
    assert {each.partition.topic_id for _, each in committed} == {topic.id}


async def test_a_group_goes_on_where_it_stopped(filled: RunningBroker) -> None:
    first, second = Seen(), Seen()

    def read(seen: Seen, wanted: int, **config: Any) -> None:
        consumer = librdkafka(filled.bootstrap, **config)
        consumer.subscribe([TOPIC])
        while len(seen.values) < wanted:
            messages = consumer.consume(50, 0.2)
            for message in messages:
                seen.add("", message.value())
            if messages:
                consumer.commit(asynchronous=False)
        consumer.close()

    await asyncio.to_thread(read, first, RECORDS)
    await asyncio.to_thread(produce, filled.bootstrap, range(RECORDS, RECORDS + 60))
    await asyncio.to_thread(read, second, 60)
    assert sorted(first.values) == list(range(RECORDS))
    assert sorted(second.values) == list(range(RECORDS, RECORDS + 60))


async def test_members_share_the_partitions_and_one_that_leaves_gives_its_own_back(
    filled: RunningBroker,
) -> None:
    shares: dict[int, int] = {}
    leave = threading.Event()

    def work(stop: threading.Event, is_leaving: Callable[[], bool] = lambda: False) -> None:
        consumer, me = librdkafka(filled.bootstrap), threading.get_ident()
        consumer.subscribe([TOPIC])
        while not (stop.is_set() or is_leaving()):
            consumer.poll(0.05)
            shares[me] = len(consumer.assignment())
        consumer.close()
        del shares[me]

    async with polling(work, 2), polling(lambda stop: work(stop, leave.is_set), 1):
        await until(lambda: sorted(shares.values()) == [2, 2, 2])
        leave.set()
        await until(lambda: sorted(shares.values()) == [3, 3])


async def test_a_static_member_comes_back_without_a_rebalance(filled: RunningBroker) -> None:
    revoked: list[int] = []

    def static(name: str) -> Consumer:
        consumer = librdkafka(filled.bootstrap, **{"group.instance.id": name})
        consumer.subscribe([TOPIC], on_revoke=lambda _, gone: revoked.append(len(gone)))
        return consumer

    def assign(*consumers: Consumer) -> None:
        while not all(consumer.assignment() for consumer in consumers):
            for consumer in consumers:
                consumer.poll(0.1)

    first, second = static("one"), static("two")
    await asyncio.wait_for(asyncio.to_thread(assign, first, second), WITHIN_S)
    await asyncio.to_thread(first.close)
    revoked.clear()
    back = static("one")
    await asyncio.wait_for(asyncio.to_thread(assign, back, second), WITHIN_S)
    for _ in range(5):
        await asyncio.to_thread(second.poll, 0.1)
    assert revoked == []
    for consumer in (back, second):
        await asyncio.to_thread(consumer.close)


async def test_two_kafka_python_members_read_everything_and_commit_it(
    filled: RunningBroker,
) -> None:
    seen = Seen()

    def work(stop: threading.Event) -> None:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=filled.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=200,
            bootstrap_timeout_ms=120_000,
        )
        while not stop.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    seen.add(str(threading.get_ident()), record.value)
            with suppress(kafka_errors.CommitFailedError, kafka_errors.RebalanceInProgressError):
                consumer.commit()
        consumer.close()

    async with polling(work, 2):
        await until_committed(filled)
    assert set(seen.values) == set(range(RECORDS))


async def test_two_aiokafka_members_read_everything_and_commit_it(filled: RunningBroker) -> None:
    seen = Seen()

    async def work(name: str) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=filled.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=200,
        )
        await consumer.start()
        try:
            while not done.is_set():
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    for record in records:
                        seen.add(name, record.value)
                with suppress(CommitFailedError, IllegalStateError):
                    await consumer.commit()
        finally:
            await consumer.stop()

    done = asyncio.Event()
    async with asyncio.TaskGroup() as members:
        for name in ("one", "two"):
            members.create_task(work(name))
        await until_committed(filled)
        done.set()
    assert set(seen.values) == set(range(RECORDS))


async def test_a_transactional_producer_stops_with_a_sentence(lake: RunningBroker) -> None:
    def start() -> None:
        config = {"bootstrap.servers": lake.bootstrap, "transactional.id": "t"}
        Producer(config).init_transactions(60)

    with pytest.raises(KafkaException, match="transactions are not offered"):
        await asyncio.wait_for(asyncio.to_thread(start), 120)


async def test_a_group_goes_on_when_its_coordinator_stops(
    tmp_path: Path, filled: RunningBroker
) -> None:
    """The members find the other broker, join again, and read on from what they committed."""
    seen = Seen()
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(
            lake_with_groups(tmp_path, limits=SMALL, broker_id=2)
        )
        topic = await other.metadata.topics.create("more", partitions=4)
        servers = f"{other.bootstrap},{filled.bootstrap}"

        def work(stop: threading.Event) -> None:
            consumer = librdkafka(servers, **{"metadata.max.age.ms": 1000})
            consumer.subscribe([topic.name])
            while not stop.is_set():
                message = consumer.poll(0.1)
                if message is not None and not message.error():
                    seen.add("", message.value())
                commit(consumer)
            consumer.close()

        # The broker that is asked first takes the group, and that one stops.
        await asyncio.to_thread(send, other.bootstrap, topic.name, range(100))
        assert await coordinator_of(other.address.port) == 2
        async with polling(work, 2):
            await until(lambda: len(set(seen.values)) == 100)
            await stack.aclose()
            await asyncio.to_thread(send, filled.bootstrap, topic.name, range(100, 200))
            await until_committed(filled, topic.name, 50, 4)
    assert set(seen.values) == set(range(200))


def send(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, value=b"%d" % number, partition=number % 4)
    assert producer.flush(120) == 0


async def coordinator_of(port: int) -> int:
    """The node that coordinates the group, as the broker at the port says; it is asked first."""
    wire = await Wire.connect(port)
    async with asyncio.timeout(WITHIN_S):
        while True:
            asking = Asking(wire, 10, 4)
            answer = await asking.ask("FindCoordinatorRequest", key_type=0, coordinator_keys=("g",))
            (found,) = answer.coordinators
            if found.error_code is ErrorCode.none:
                await wire.close()
                return int(found.node_id)
            await asyncio.sleep(0.05)
