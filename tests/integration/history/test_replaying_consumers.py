"""Consumers that replay a topic while everything below them changes.

One producer sends, a compaction moves records into the table, the table's files are rewritten and
the old ones deleted at once, the process that reads tables is killed: every consumer gets every
record once, in order, from the first in Parquet to the last in the WAL.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyiceberg.table import Table

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.metadata.topic_config.lakestream import NAMESPACE
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.outage import OUTAGES
from tests.support.embedded import catalog_spec
from tests.support.ingress_process import Ingress, eventually, ingress
from tests.support.local_rewriter import LocalRewriter
from tests.support.sparkless import SparklessCompaction

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 1_000
KILLS = 1
QUICK = ("--set", "wal.cost.flush_interval_ms=20")
READER = "lakestream_spark.history.process"
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
Seen = dict[int, list[tuple[int, bytes | None]]]
"""Offset and value of each record, in the order it came, by partition."""


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()


def produce(bootstrap: str, first: int, count: int) -> None:
    """Each value is its number; the offset follows from it."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0.001 if number % 50 == 0 else 0)
    assert producer.flush(120) == 0


def sent(count: int) -> Seen:
    return {
        partition: [(n // PARTITIONS, b"%d" % n) for n in range(partition, count, PARTITIONS)]
        for partition in range(PARTITIONS)
    }


def replay(bootstrap: str, count: int) -> Seen:
    """Everything from offset 0 until `count` records came and the ends are reached."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.error.backoff.ms": 10,
            # Many answers, so that what happens below hits between them.
            "fetch.message.max.bytes": 4096,
        }
    )
    seen: Seen = {partition: [] for partition in range(PARTITIONS)}
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in seen])
        while sum(map(len, seen.values())) < count or len(ended) < PARTITIONS:
            message = consumer.poll(60)
            assert message is not None, f"nothing came after {sum(map(len, seen.values()))} records"
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
                continue
            ended.discard(partition)
            seen[partition].append((message.offset() or 0, message.value()))
    finally:
        consumer.close()
    return seen


@contextmanager
def compacting(folder: Path) -> Iterator[None]:
    job = subprocess.Popen(
        [sys.executable, "-m", "tests.support.sparkless", str(folder), "--for-ever", "1"]
    )
    try:
        yield
    finally:
        job.terminate()
        job.wait(60)


def load(tables: StreamCatalog) -> Table:
    return tables._catalog.load_table((NAMESPACE, TOPIC))


def merge_and_delete(tables: StreamCatalog) -> None:
    """All files of a partition into one; who still wants the old ones finds them gone."""
    old = [Path(t.file.file_path.removeprefix("file://")) for t in load(tables).scan().plan_files()]
    LocalRewriter(lambda _: load(tables)).merge((NAMESPACE, TOPIC), target_bytes=1, where="true")
    for path in old:
        path.unlink()


def kill_reader(broker: Ingress) -> bool:
    for child in psutil.Process(broker.process.pid).children():
        with suppress(psutil.NoSuchProcess):
            if READER in child.cmdline():
                child.kill()
                return True
    return False


def compact(folder: Path) -> None:
    """Everything acknowledged so far goes to its table."""
    with closing(SparklessCompaction(folder)) as compaction:
        compaction.run_until_drained()


def test_every_replay_gets_every_record_once_whatever_happens_below(tmp_path: Path) -> None:
    with ingress(tmp_path, *QUICK) as broker, ThreadPoolExecutor(4) as pool:
        (listening,) = broker.ready()
        create_topic(listening.kafka)
        produce(listening.kafka, 0, RECORDS // 2)
        compact(tmp_path)
        tables = StreamCatalog.open(catalog_spec(tmp_path))
        blows = {"merges": 0, "kills": 0}
        over = threading.Event()

        def nemesis() -> None:
            while not over.wait(0.3):
                with suppress(LakestreamError, *OUTAGES):
                    merge_and_delete(tables)
                    blows["merges"] += 1
                if blows["kills"] < KILLS:
                    blows["kills"] += kill_reader(broker)

        with compacting(tmp_path):
            sending = pool.submit(produce, listening.kafka, RECORDS // 2, RECORDS // 2)
            hitting = pool.submit(nemesis)
            try:
                replays = [pool.submit(replay, listening.kafka, RECORDS) for _ in range(2)]
                for each in replays:
                    assert each.result() == sent(RECORDS)
                # Blows that hit nothing prove nothing.
                while not (blows["kills"] and blows["merges"]):
                    assert replay(listening.kafka, RECORDS) == sent(RECORDS)
            finally:
                over.set()
                hitting.result()
            sending.result()
        tables.close()
        assert broker.stop() == 0, "".join(broker.log)


def test_erased_records_leave_the_stream_and_no_consumer_waits_at_the_holes(
    tmp_path: Path,
) -> None:
    with ingress(tmp_path, *QUICK) as broker:
        (listening,) = broker.ready()
        create_topic(listening.kafka)
        produce(listening.kafka, 0, 200)
        compact(tmp_path)
        tables = StreamCatalog.open(catalog_spec(tmp_path))
        expected = sent(200)
        assert replay(listening.kafka, 200) == expected
        # The first rows, some in between, and the last ones of the table.
        gone = {*range(10), *range(40, 45), *range(90, 100)}
        load(tables).delete(f"__partition = 0 AND __offset IN ({','.join(map(str, gone))})")
        expected[0] = [each for each in expected[0] if each[0] not in gone]

        def seen() -> Seen:
            return replay(listening.kafka, sum(map(len, expected.values())))

        eventually(lambda: seen() == expected)
        # The seam behind a hole: the next records are in the WAL.
        produce(listening.kafka, 200, 10)
        expected = {p: [*own, *sent(210)[p][100:]] for p, own in expected.items()}
        assert seen() == expected
        compact(tmp_path)
        assert seen() == expected
        tables.close()
        assert broker.stop() == 0, "".join(broker.log)
