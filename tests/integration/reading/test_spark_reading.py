"""Table and tail as one in Spark: as a DataFrame, as a batch and as a stream."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from chispa import assert_df_equality
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import lakestream_spark
from lakestream_spark.reading import DefaultSource
from tests.support.embedded import catalog_spec
from tests.support.fetching import cache_folder
from tests.support.ingress_process import eventually
from tests.support.reading import Lake, Place, dense, lake_in, places
from tests.support.shell import Shell
from tests.support.spark import ignore_sockets_of_spark, spark_session

pytestmark = [pytest.mark.spark, ignore_sockets_of_spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("lake")) as found:
        yield found


@pytest.fixture(scope="module")
def spark(lake: Lake) -> Iterator[SparkSession]:
    with spark_session(catalog_spec(lake.folder)) as session:
        with suppress(AnalysisException):  # It is installed, and so found without that.
            session.dataSource.register(DefaultSource)
        yield session


@pytest.fixture
def topic() -> str:
    return f"t{uuid4().hex[:12]}"


def numbers(first: int, after: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, after)]


def read(spark: SparkSession, lake: Lake, topic: str) -> DataFrame:
    return lakestream_spark.read(spark, topic, data=lake.data)


def batch(spark: SparkSession, lake: Lake, topic: str, **options: str) -> DataFrame:
    named = {"data": lake.data, "subscribe": topic, **options}
    return spark.read.format("lakestream").options(**named).load()


def test_every_offset_is_there_once_while_records_come_and_are_committed(
    spark: SparkSession, lake: Lake, topic: str
) -> None:
    lake.create(topic, 2)
    acked = {0: 0, 1: 0}

    def live() -> None:
        for _ in range(8):
            for partition in (0, 1):
                lake.send(topic, numbers(0, 300), partition=partition)
                acked[partition] += 300
            lake.commit()

    def look() -> tuple[DataFrame, list[Place]]:
        before = dict(acked)
        frame = read(spark, lake, topic)
        found = places(frame)
        ends = Counter(partition for partition, _ in found)
        assert found == dense(ends[0], ends[1])
        assert all(ends[partition] >= count for partition, count in before.items())
        return frame, found

    seen = [look()]
    with ThreadPoolExecutor(1) as pool:
        living = pool.submit(live)
        while not living.done():
            seen.append(look())
        living.result()
    lake.forget_wal()
    assert look()[1] == dense(2400, 2400)
    # The same moments, though all of it is in the table by now and the WAL is gone.
    for frame, found in (seen[0], seen[len(seen) // 2], seen[-1]):
        assert places(frame) == found


def test_the_seam_is_exact_when_the_tail_goes_into_the_table_before_it_is_read(
    spark: SparkSession, lake: Lake, topic: str
) -> None:
    lake.create(topic)
    lake.send(topic, numbers(0, 50))
    lake.commit()
    lake.send(topic, numbers(50, 80))
    frame = read(spark, lake, topic)
    lake.send(topic, numbers(80, 90))  # acknowledged after the call: not in the frame
    lake.commit()
    lake.forget_wal()
    rows = [(0, n, b"k", b"%d" % n, [("h", b"1"), ("none", None)]) for n in range(80)]
    expected = spark.createDataFrame(
        rows,
        "__partition int, __offset bigint, __key binary, __value binary, "
        "__headers array<struct<key: string, value: binary>>",
    )
    found = frame.select("__partition", "__offset", "__key", "__value", "__headers")
    assert_df_equality(
        found, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )
    lake.send(topic, numbers(90, 95))
    chosen = lakestream_spark.read(spark, topic, columns=["__value"], data=lake.data)
    assert chosen.columns == ["__value"]
    assert sorted(int(row[0]) for row in chosen.collect()) == list(range(95))
    plan = frame.where("__offset = 7").select("__offset")._jdf.queryExecution().toString()
    assert "IcebergScan" in plan
    assert "__offset = 7" in plan.replace("[", "")


def test_a_segment_that_is_gone_and_in_no_table_stops_the_read(
    spark: SparkSession, lake: Lake, topic: str
) -> None:
    lake.create(topic)
    lake.send(topic, numbers(0, 10))
    frame = read(spark, lake, topic)
    before = lake.segments()
    lake.send(topic, numbers(10, 20))
    (lost,) = lake.segments() - before
    lost.unlink()
    assert places(frame) == dense(10)
    try:
        with pytest.raises(Exception, match="data loss"):
            read(spark, lake, topic).collect()
        kept = batch(spark, lake, topic, failOnDataLoss="false")
        assert places(kept) == dense(10)
    finally:
        lake.drop(topic)


def test_a_batch_begins_and_ends_where_its_options_say(
    spark: SparkSession, lake: Lake, topic: str
) -> None:
    lake.create(topic)
    lake.send(topic, numbers(0, 10))
    lake.commit()
    lake.send(topic, numbers(10, 20))
    between = batch(
        spark,
        lake,
        topic,
        startingOffsets=json.dumps({topic: {"0": 7}}),
        endingOffsets=json.dumps({topic: {"0": 13}}),
        columns="kafka",
    )
    assert between.columns == [
        *("key", "value", "topic", "partition", "offset"),
        *("timestamp", "timestampType", "headers"),
    ]
    found = between.select("topic", "offset", "value").orderBy("offset").collect()
    assert [tuple(row) for row in found] == [(topic, n, b"%d" % n) for n in range(7, 13)]
    snapshot = spark.sql(f"SELECT snapshot_id FROM lake.streams.{topic}.snapshots").first()
    assert snapshot is not None
    after = batch(spark, lake, topic, startingSnapshot=str(snapshot[0]))
    assert places(after) == dense(20)[10:]
    assert places(batch(spark, lake, topic, startingTimestamp="1700000000000")) == dense(20)


def test_what_is_wrong_with_options_is_said_in_a_sentence(
    spark: SparkSession, lake: Lake, topic: str
) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        batch(spark, lake, topic, startingOffset="earliest").collect()
    with pytest.raises(Exception, match="no such topic"):
        batch(spark, lake, topic).collect()


def test_a_stream_goes_from_history_into_the_tail_and_on_after_a_restart(
    spark: SparkSession, lake: Lake, topic: str, tmp_path: Path
) -> None:
    def start(trigger: dict[str, Any], **options: str) -> Any:
        named = {"data": lake.data, "subscribe": topic, "startingOffsets": "earliest", **options}
        stream = spark.readStream.format("lakestream").options(**named).load()
        writing = stream.writeStream.format("parquet").trigger(**trigger)
        return writing.option("checkpointLocation", f"{tmp_path}/c").start(f"{tmp_path}/out")

    def streamed() -> list[Place]:
        return places(spark.read.parquet(f"{tmp_path}/out"))

    lake.create(topic)
    lake.send(topic, numbers(0, 50))
    lake.commit()
    lake.send(topic, numbers(50, 70))
    start({"availableNow": True}).awaitTermination()
    assert streamed() == dense(70)

    lake.send(topic, numbers(70, 120))
    lake.commit()
    lake.forget_wal()
    admin = AdminClient({"bootstrap.servers": lake.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    lake.send(topic, numbers(0, 40), partition=1)
    query = start({"processingTime": "100 milliseconds"}, maxOffsetsPerTrigger="60")
    try:
        _eventually(query, lambda: _read_so_far(query) >= 90)
        lake.send(topic, numbers(120, 130))
        _eventually(query, lambda: _read_so_far(query) >= 100)
        batches = [each["numInputRows"] for each in query.recentProgress]
    finally:
        query.stop()
    assert max(batches) <= 60
    assert streamed() == dense(130, 40)


def _read_so_far(query: Any) -> int:
    return sum(each["numInputRows"] for each in query.recentProgress)


def _eventually(query: Any, condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        assert query.exception() is None, query.exception()
        return condition()

    eventually(holds)


def test_what_spark_deleted_is_gone_in_sql_of_duckdb(
    spark: SparkSession, lake: Lake, topic: str
) -> None:
    table = f"lake.streams.{topic}"
    lake.create(topic)
    lake.send(topic, numbers(0, 50))
    lake.commit()
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    spark.sql(f"DELETE FROM {table} WHERE __offset IN (3, 17)")
    assert spark.sql(f"SELECT 1 FROM {table}.delete_files").count() == 1
    lake.send(topic, numbers(50, 60))
    query = f"SELECT decode(__value)::INT AS n FROM {topic} ORDER BY n"
    found = Shell(["--data", lake.data]).json("sql", query)["rows"]
    assert [row["n"] for row in found] == [n for n in range(60) if n not in (3, 17)]


def test_the_program_that_connect_prints_shows_table_and_tail(
    spark: SparkSession, lake: Lake, topic: str
) -> None:
    lake.create(topic)
    lake.send(topic, numbers(0, 5))
    lake.commit()
    lake.send(topic, numbers(5, 8))
    _, program = printed_for_spark(lake, topic)
    with redirect_stdout(StringIO()) as shown:
        exec(program, {})
    offsets = [line.split("|")[2].strip() for line in shown.getvalue().splitlines() if "|" in line]
    assert sorted(offsets) == [*map(str, range(8)), "__offset"]


@pytest.mark.slow
def test_the_command_that_connect_prints_shows_the_table_of_a_topic_with_any_name(
    lake: Lake, tmp_path: Path
) -> None:
    lake.create("select")
    lake.send("select", numbers(0, 5))
    lake.commit()
    command, _ = printed_for_spark(lake, "select")
    # Packages are kept for the next run; whatever else is set here would hide what is missing.
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars.ivy {cache_folder()}/ivy\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows if len(row) > 2] == [["0", str(n)] for n in range(5)]


def printed_for_spark(lake: Lake, topic: str) -> tuple[str, str]:
    """The command for a shell, and the program for Python."""
    said = Shell(["--data", lake.data])("connect", "spark", topic)
    command, _, program = said.partition("\n\n")
    return command, program
