"""`lakestream skeleton`: one record takes the whole path in front of you, then everything is gone.

A stock Kafka client (librdkafka) sends and fetches; the broker runs in this process.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from rich.console import Console

from lakestream_spark.app import RunningBroker, running_broker
from lakestream_spark.cli.jobs import compact_job
from lakestream_spark.core import ids
from lakestream_spark.core.errors import Corrupt
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.settings import Entry, Settings, load
from lakestream_spark.spark.compact import drain
from lakestream_spark.spark.session import local_session

TOPIC: Final = "orders"
KEY: Final = b"order-1"
HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("trace", b"42"), ("note", None)]
_WAIT_S: Final = 30.0

Say = Callable[[str, str], None]


@click.command()
def skeleton() -> None:
    """Show one record going from a Kafka client through Spark into a table and back."""
    console = Console(highlight=False)

    def say(step: str, text: str) -> None:
        console.print(f"[bold green]{step:>12}[/]  {text}", soft_wrap=True)

    with TemporaryDirectory(prefix="lakestream-") as folder:
        asyncio.run(_show(_settings(Path(folder)), say))


def _settings(folder: Path) -> Settings:
    flags = {"data": str(folder), "broker.port": "0"}
    entries = [Entry(key=key, value=value, origin="skeleton") for key, value in flags.items()]
    return load(environ={}, flags=entries).settings


async def _show(settings: Settings, say: Say) -> None:
    async with running_broker(settings) as broker:
        say("started", f"a broker on {broker.bootstrap}, everything below {settings.data}")
        offset = await asyncio.to_thread(_produce, broker.bootstrap, b"first")
        say("acknowledged", f"a record of topic {TOPIC} at offset {offset}")
        say("in the WAL", await _where(broker))
        say("compacting", "Spark starts, turns the WAL into Parquet and commits it to Iceberg ...")
        await asyncio.to_thread(_compact_and_query, settings, say)
        say("in the WAL", await _where(broker))
        await asyncio.to_thread(_produce, broker.bootstrap, b"second")
        await asyncio.to_thread(_consume, broker.bootstrap, say)


def _produce(bootstrap: str, value: bytes) -> int:
    """Send one record and return its offset, once it is acknowledged."""
    answers: list[tuple[Any, Message]] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(
        TOPIC,
        key=KEY,
        value=value,
        headers=HEADERS,
        on_delivery=lambda error, message: answers.append((error, message)),
    )
    producer.flush(_WAIT_S)
    for error, message in answers:
        if error is None:
            return int(message.offset() or 0)
        raise KafkaException(error)
    raise KafkaException("no answer")


async def _where(broker: RunningBroker) -> str:
    topic = await broker.metadata.topics.get(TOPIC)
    partition = ids.TopicPartition(topic.id, 0)
    located = await broker.metadata.extents.locate(partition, 0, 1)
    if not located.extents:
        return f"nothing any more: the table end is {located.ends.table_end}"
    extent = located.extents[0]
    return f"{extent.length} bytes of {segment_key(extent.segment_id)}"


def _compact_and_query(settings: Settings, say: Say) -> None:
    job = compact_job(settings, checkpoint=Path(settings.data) / "checkpoint")
    spark = local_session(job.catalog)
    try:
        drain(lambda: spark, job)
        (snapshot,) = spark.sql(
            f"SELECT snapshot_id FROM {job.catalog.name}.streams.{TOPIC}.snapshots"
        ).collect()
        say("committed", f"as snapshot {snapshot.snapshot_id} of streams.{TOPIC}")
        query = (
            "SELECT __partition, __offset, __timestamp, decode(__key, 'UTF-8') AS key, "
            f"decode(__value, 'UTF-8') AS value FROM {job.catalog.name}.streams.{TOPIC}"
        )
        (row,) = spark.sql(query).collect()
        say("by SQL", ", ".join(f"{name}={value}" for name, value in row.asDict().items()))
    finally:
        spark.stop()


def _consume(bootstrap: str, say: Say) -> None:
    """One consumer over the seam: offset 0 is in Parquet only, offset 1 in the WAL only."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "skeleton", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        messages = consumer.consume(2, _WAIT_S)
    finally:
        consumer.close()
    got = [(each.offset(), each.key(), each.value(), each.headers()) for each in messages]
    if got != [(0, KEY, b"first", HEADERS), (1, KEY, b"second", HEADERS)]:
        raise Corrupt("the records did not come back as they were sent", got=got)
    say("fetched", "offset 0 from Parquet, offset 1 from the WAL, both exactly as they were sent")
