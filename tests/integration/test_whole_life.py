"""The whole life of a stream: after its commit a record exists once, in the table.

One test for many facts, in the order of a life: starting Spark costs more than all of them.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from lakestream_spark.cli.jobs import compact_job, maintain_job
from lakestream_spark.cli.verify import run_verify
from lakestream_spark.spark.compact import drain
from lakestream_spark.spark.maintain import maintain_once
from lakestream_spark.table.columns import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, VALUE
from lakestream_spark.verify.pinned import Asked
from tests.compat.kafka_python import PATIENT, KafkaConsumer, sockets_it_forgets
from tests.compat.kafka_python import TopicPartition as PlainPartition
from tests.support.embedded import catalog_spec, lake_settings
from tests.support.frugal_spark import frugal
from tests.support.ingress_process import Listening, eventually, ingress
from tests.support.spark import ignore_sockets_of_spark, spark_session

__all__ = ["sockets_it_forgets"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    ignore_sockets_of_spark,
]

TOPIC: Final = "orders"
TABLE: Final = f"lake.streams.{TOPIC}"
PARTITIONS: Final = 2
EAGER: Final = {
    "maintain.merge_min_files": "2",
    "maintain.snapshots_kept": "1",
    "maintain.hourly_tags": "0",
    "maintain.daily_tags": "0",
}
_WAIT_S: Final = 120.0


class Seen(NamedTuple):
    """A record as any reader must see it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def sent(partition: int, offset: int) -> Seen:
    """What is sent as this offset: null and empty in turn, repeated header keys, odd times."""
    return Seen(
        partition,
        offset,
        1_700_000_000_000 + 7 * offset - partition,
        (None, b"", b"k%d" % offset)[offset % 3],
        (b"v" * offset, None, b"")[offset % 5 % 3],
        (("a", b"1"), ("b", None), ("a", b""))[: offset % 4],
    )


class Platform:
    """Brokers come and go; what was sent is remembered."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.spark = spark
        self.expected: dict[tuple[int, int], Seen] = {}
        self.ends = [0] * PARTITIONS

    @contextmanager
    def broker(self) -> Iterator[Listening]:
        """A new process with empty caches, which lets go of WAL segments at once."""
        settings = self.folder / "lakestream.toml"
        settings.write_text("[wal]\ngrace_period_ms = 200\nreclaim_interval_ms = 100\n")
        with ingress(self.folder, "--conf", str(settings)) as process:
            (listening,) = process.ready()
            yield listening
            assert process.stop() == 0, "".join(process.log)

    def produce(self, broker: Listening, count: int) -> None:
        producer = Producer(
            {"bootstrap.servers": broker.kafka, "enable.idempotence": True, "linger.ms": 1}
        )
        for _ in range(count):
            for partition in range(PARTITIONS):
                record = sent(partition, self.ends[partition])
                self.ends[partition] += 1
                self.expected[record[:2]] = record
                producer.produce(
                    TOPIC,
                    partition=partition,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp=record.timestamp,
                )
                producer.poll(0)
        assert producer.flush(_WAIT_S) == 0

    def compact(self) -> None:
        settings = lake_settings(self.folder)
        drain(lambda: self.spark, compact_job(settings, checkpoint=self.folder / "checkpoint"))

    @property
    def wanted(self) -> list[Seen]:
        return sorted(self.expected.values(), key=lambda each: each[:2])

    def wal_objects(self) -> list[Path]:
        return [path for path in (self.folder / "wal").rglob("*") if path.is_file()]

    def check(self, broker: Listening) -> None:
        """Two clients read everything from offset 0 on, and a certificate is given."""
        assert by_librdkafka(broker.kafka, self.ends) == self.wanted
        assert by_kafka_python(broker.kafka, self.ends) == self.wanted
        run_verify(lake_settings(self.folder), TOPIC, Asked())

    def streamed(self) -> list[Seen]:
        """What a Spark stream gets from offset 0 to the newest record."""
        name = f"whole_life_{uuid4().hex}"
        query = (
            self.spark.readStream.format("lakestream")
            .option("data", str(self.folder))
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.format("memory")
            .queryName(name)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = self.spark.table(name).orderBy(PARTITION, OFFSET)
        times = rows.selectExpr("*", f"unix_millis({TIMESTAMP}) AS ms").collect()
        return [
            Seen(
                row[PARTITION],
                row[OFFSET],
                row["ms"],
                None if row[KEY] is None else bytes(row[KEY]),
                None if row[VALUE] is None else bytes(row[VALUE]),
                tuple((h[0], None if h[1] is None else bytes(h[1])) for h in row[HEADERS]),
            )
            for row in times
        ]

    def merge_and_expire(self) -> None:
        """Upkeep that keeps one snapshot only; it really merges and expires."""
        settings = lake_settings(self.folder, more=EAGER)
        done = maintain_once(lambda: self.spark, maintain_job(settings))[TOPIC]
        assert not done.failed, done
        assert done.done["files merged"] > 0, done
        assert done.done["expired snapshots"] > 0, done

    def erase(self, condition: str) -> None:
        """A data subject leaves: rows go by SQL."""
        gone = self.spark.sql(f"SELECT __partition, __offset FROM {TABLE} WHERE {condition}")
        for row in gone.collect():
            del self.expected[row[0], row[1]]
        self.spark.sql(f"DELETE FROM {TABLE} WHERE {condition}")


def by_librdkafka(bootstrap: str, ends: list[int]) -> list[Seen]:
    """Until the end of every partition is reached, whatever is missing on the way."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }
    found, open_ends = [], set(range(len(ends)))
    consumer = Consumer(config)
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in open_ends])
    while open_ends:
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"nothing came, open are {open_ends}"
        error = message.error()
        if error is not None:
            assert error.name() == "_PARTITION_EOF", error
            open_ends.discard(message.partition() or 0)
            continue
        found.append(
            Seen(
                message.partition() or 0,
                message.offset() or 0,
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),  # type: ignore[arg-type]
            )
        )
    consumer.close()
    in_order(found)
    return sorted(found, key=lambda each: each[:2])


def by_kafka_python(bootstrap: str, ends: list[int]) -> list[Seen]:
    with closing(
        KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **PATIENT)
    ) as consumer:
        places = [PlainPartition(TOPIC, partition) for partition in range(len(ends))]
        consumer.assign(places)
        consumer.seek_to_beginning()
        found: list[Seen] = []

        def at_the_end() -> bool:
            for records in consumer.poll(timeout_ms=1000).values():
                for each in records:
                    headers = tuple((name, value) for name, value in each.headers)
                    place = (each.partition, each.offset, each.timestamp)
                    found.append(Seen(*place, each.key, each.value, headers))
            return [consumer.position(place) for place in places] == ends

        eventually(at_the_end, _WAIT_S)
    in_order(found)
    return sorted(found, key=lambda each: each[:2])


def in_order(found: list[Seen]) -> None:
    for partition in range(PARTITIONS):
        offsets = [each.offset for each in found if each.partition == partition]
        assert offsets == sorted(set(offsets))


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    with spark_session(catalog_spec(tmp_path)) as session:
        frugal(session)
        yield Platform(tmp_path, session)


def test_the_life_of_a_stream(platform: Platform) -> None:
    spark = platform.spark
    with platform.broker() as broker:
        new = NewTopic(TOPIC, PARTITIONS, 1, config={"lakestream.table.formats": "iceberg,delta"})
        admin = AdminClient({"bootstrap.servers": broker.kafka})
        admin.create_topics([new])[TOPIC].result(_WAIT_S)
        platform.produce(broker, 400)
        platform.check(broker)
        platform.compact()
        platform.produce(broker, 100)
        platform.check(broker)
        platform.compact()
        eventually(lambda: not platform.wal_objects())
        platform.check(broker)

    with platform.broker() as broker:  # Everything comes from Parquet now.
        platform.check(broker)
        assert platform.streamed() == platform.wanted
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => 'streams.{TOPIC}', strategy => 'sort', "
            "sort_order => '__timestamp DESC', options => map('rewrite-all', 'true'))"
        )
        platform.check(broker)
        platform.erase("__offset % 50 IN (10, 11, 12)")
        platform.erase("__partition = 1 AND __offset < 20")
        eventually(lambda: by_librdkafka(broker.kafka, platform.ends) == platform.wanted)
        platform.check(broker)
        for _ in range(3):  # Of about one size, or the small are not merged into the large.
            platform.produce(broker, 50)
            platform.compact()
        platform.merge_and_expire()
        eventually(lambda: not platform.wal_objects())
        platform.produce(broker, 50)
        platform.check(broker)

    with platform.broker() as broker:
        platform.check(broker)
        assert platform.streamed() == platform.wanted
    whole = run_verify(
        lake_settings(platform.folder), TOPIC, Asked(), full=True, session=lambda: spark
    )
    print("\n".join(whole.lines()))
