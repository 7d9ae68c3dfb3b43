"""A lake for tests that read it in Spark: a broker in a thread, topics, and commits at will."""

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame

from lakestream_spark.app import RunningBroker
from lakestream_spark.spark.background import BackgroundLoop
from tests.support.embedded import embedded_lake
from tests.support.ingress_process import eventually
from tests.support.sparkless import SparklessCompaction

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """Everything under one folder. WAL segments go as soon as nothing refers to them."""

    folder: Path
    broker: RunningBroker

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def data(self) -> str:
        return str(self.folder)

    def create(
        self, topic: str, partitions: int = 1, *, config: dict[str, str] | None = None
    ) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = NewTopic(topic, partitions, 1, config=config or {})
        for future in admin.create_topics([wanted]).values():
            future.result(60)

    def drop(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([topic])[topic].result(60)

    def send(self, topic: str, values: Sequence[bytes | None], *, partition: int = 0) -> None:
        """All of them are acknowledged when this returns."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        errors: list[object] = []
        for value in values:
            producer.produce(
                topic,
                value,
                key=b"k",
                partition=partition,
                headers=[("h", b"1"), ("none", None)],
                timestamp=1_700_000_000_000,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(120) == 0
        assert set(errors) <= {None}

    def commit(self) -> None:
        """Everything acknowledged is in the tables."""
        with closing(SparklessCompaction(self.folder)) as compaction:
            compaction.run_until_drained()

    def segments(self) -> set[Path]:
        """The objects of the WAL."""
        return {path for path in (self.folder / "wal").rglob("*") if path.is_file()}

    def forget_wal(self) -> None:
        """Wait until the WAL is gone: it must be in the tables."""
        eventually(lambda: not self.segments())


@contextmanager
def lake_in(folder: Path) -> Iterator[Lake]:
    more = {"wal.grace_period_ms": "0", "wal.reclaim_interval_ms": "100"}
    stack = AsyncExitStack()
    with BackgroundLoop() as loop:
        broker = loop.run(stack.enter_async_context(embedded_lake(folder, more=more)))
        try:
            yield Lake(folder=folder, broker=broker)
        finally:
            loop.run(stack.aclose())


def places(frame: DataFrame) -> list[Place]:
    """Where its rows are in the stream, in order, as often as they are there."""
    rows = frame.select("__partition", "__offset").collect()
    return sorted((row[0], row[1]) for row in rows)


def dense(*ends: int) -> list[Place]:
    """Every offset of each partition, once."""
    return [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]
