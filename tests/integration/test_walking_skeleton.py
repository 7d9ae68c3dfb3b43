"""One record through every border of the map: client, WAL, Spark, Iceberg, Parquet, client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from lakestream_spark.app import RunningBroker
from lakestream_spark.cli.jobs import compact_job
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.spark.compact import drain, run
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec, embedded_lake, lake_settings
from tests.support.kafka import Received, Sent, consume, produce
from tests.support.spark import ignore_sockets_of_spark, spark_session

TOPIC = "orders"
CREATE_TIME = 1
FIRST = Sent(
    key=b"key",
    value=b"\x00value\xff",
    headers=[("trace", b"1"), ("empty", b""), ("null", None), ("trace", b"2")],
    timestamp_ms=1_700_000_000_123,
)
SECOND = Sent(key=None, value=b"tail", timestamp_ms=1_700_000_000_456)


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with embedded_lake(tmp_path) as embedded:
        yield embedded


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    with spark_session(catalog_spec(tmp_path)) as session:
        yield session


def received(offset: int, sent: Sent) -> Received:
    return Received(
        offset, (CREATE_TIME, sent.timestamp_ms), sent.key, sent.value, list(sent.headers)
    )


@pytest.mark.slow  # The life of a stream is a longer walk over the same borders.
@pytest.mark.spark
@ignore_sockets_of_spark
async def test_one_record_crosses_every_border_and_comes_back_from_parquet(
    lake: RunningBroker, spark: SparkSession, tmp_path: Path
) -> None:
    job = compact_job(lake_settings(tmp_path), checkpoint=tmp_path / "checkpoint")
    assert await asyncio.to_thread(produce, lake.bootstrap, TOPIC, [FIRST]) == [0]
    assert await _consume(lake, 1) == [received(0, FIRST)]
    topic = await lake.metadata.topics.get(TOPIC)
    partition = TopicPartition(topic.id, 0)
    assert (await lake.metadata.extents.locate(partition, 0, 1)).extents

    done = await asyncio.to_thread(drain, lambda: spark, job)
    assert (done.commits, done.rows, done.files) == (1, 1, 1)

    located = await lake.metadata.extents.locate(partition, 0, 1)
    assert located.ends.table_end == 1
    assert located.extents == ()
    assert await lake.metadata.tables.intent(topic.id) is None
    with closing(StreamCatalog.open(job.catalog)) as tables:
        table = tables.load(tables.layout(topic.id, TOPIC))
        assert table is not None
        assert [_seen(row) for row in table.scan().to_arrow().to_pylist()] == [_expected()]
    rows = await asyncio.to_thread(spark.sql("SELECT * FROM lake.streams.orders").collect)
    assert [_seen(row.asDict(recursive=True)) for row in rows] == [_expected()]

    assert await asyncio.to_thread(produce, lake.bootstrap, TOPIC, [SECOND]) == [1]
    assert await _consume(lake, 2) == [received(0, FIRST), received(1, SECOND)]


@pytest.mark.spark
@ignore_sockets_of_spark
async def test_a_compaction_that_is_told_to_stop_while_spark_starts_begins_nothing(
    lake: RunningBroker, spark: SparkSession, tmp_path: Path
) -> None:
    job = compact_job(lake_settings(tmp_path), checkpoint=tmp_path / "checkpoint")
    assert await asyncio.to_thread(produce, lake.bootstrap, TOPIC, [FIRST]) == [0]
    await lake.metadata.backlog.ask_flush((await lake.metadata.topics.get(TOPIC)).id)
    stop = Event()

    def started_meanwhile() -> SparkSession:
        stop.set()
        return spark

    done = await asyncio.to_thread(run, started_meanwhile, job, stop)
    assert done.commits == 0
    assert not (tmp_path / "checkpoint").exists()


async def _consume(lake: RunningBroker, count: int) -> list[Received]:
    return await asyncio.to_thread(consume, lake.bootstrap, TOPIC, offset=0, count=count)


def _seen(row: dict[str, object]) -> dict[str, object]:
    """A row with its time as text and Spark's bytearrays as bytes."""
    return {
        "partition": row["__partition"],
        "offset": row["__offset"],
        "time": f"{row['__timestamp']:%Y-%m-%dT%H:%M:%S.%f}",
        "time_type": row["__timestamp_type"],
        "key": _plain(row["__key"]),
        "headers": [(h["key"], _plain(h["value"])) for h in row["__headers"]],  # type: ignore[attr-defined]
        "value": _plain(row["__value"]),
        "record": _plain(row["__record"]),
    }


def _plain(value: object) -> bytes | None:
    return None if value is None else bytes(value)  # type: ignore[call-overload]


def _expected() -> dict[str, object]:
    return {
        "partition": 0,
        "offset": 0,
        "time": "2023-11-14T22:13:20.123000",
        "time_type": 0,
        "key": FIRST.key,
        "headers": list(FIRST.headers),
        "value": FIRST.value,
        "record": None,
    }
