"""From the stream of orders to silver and quarantine: every kind of record, once, through kills."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from lakestream_spark.cli.demo.shop import Shop
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.spark.silver import pipeline
from lakestream_spark.spark.silver.gate import Gate
from lakestream_spark.spark.silver.orders import RECORD, typed
from lakestream_spark.spark.silver.pipeline import REPEATED, SilverBatch, SilverJob, drain, run
from lakestream_spark.spark.silver.tables import QUARANTINE, SILVER, insert_new, newest
from tests.support.deployment import ROOT
from tests.support.embedded import catalog_spec
from tests.support.ingress_process import eventually
from tests.support.order_records import EVERY_KIND, order
from tests.support.reading import Lake, Place, lake_in, places
from tests.support.spark import ignore_sockets_of_spark, spark_session
from tests.support.standalone_spark import spark_submit

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(600),
    ignore_sockets_of_spark,
    # Of Great Expectations itself, and of what it uses.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
KILLED = ROOT / "tests" / "support" / "killed_silver.py"
PIPELINE = ROOT / "pipelines" / "silver.py"
VALUES = [made.value for made in EVERY_KIND]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("lake")) as started:
        yield started


@pytest.fixture(scope="module")
def spark(lake: Lake) -> Iterator[SparkSession]:
    more = {"spark.sql.shuffle.partitions": "2"}
    with spark_session(catalog_spec(lake.folder), more=more) as session:
        yield session


@pytest.fixture
def job(lake: Lake, tmp_path: Path, request: pytest.FixtureRequest) -> SilverJob:
    """A topic and two tables of the test's own."""
    # Dashes are no part of a plain name in SQL.
    name = str(request.node.originalname).removeprefix("test_")[:60].replace("_", "-")
    lake.create(name)
    options = {"data": lake.data, "maxOffsetsPerTrigger": "1000"}
    return SilverJob.of("lake", "silver", name, str(tmp_path / "checkpoint"), options)


def bronze(spark: SparkSession, lake: Lake, job: SilverJob) -> DataFrame:
    reader = spark.read.format("lakestream").option("data", lake.data)
    return reader.option("subscribe", job.topic).load()


def test_every_kind_of_record_goes_where_it_belongs(
    spark: SparkSession, lake: Lake, job: SilverJob
) -> None:
    lake.send(job.topic, VALUES)
    assert drain(spark, job, SilverBatch(spark, job)) == len(VALUES)
    _check_silver(newest(spark, job.silver))
    _check_quarantine(newest(spark, job.quarantine), bronze(spark, lake, job))


def test_every_order_of_the_demo_is_good_enough(spark: SparkSession) -> None:
    shop = Shop(Random(1))
    made = [shop.order(datetime.now(UTC)) for _ in range(200)]
    values = spark.createDataFrame(
        [(n, each.record.value) for n, each in enumerate(made)], "n int, v binary"
    )
    given = {"__partition": "0", "__offset": "n", "__value": "v"}
    columns = [f"CAST({given.get(c, 'NULL')} AS {kind}) AS {c}" for c, kind in RECORD.items()]
    rows = typed(values.selectExpr(*columns))
    assert Gate().failures(rows) == []
    found = {(row["order_id"], float(row["total"])) for row in rows.collect()}
    assert found == {(each.fields["order_id"], each.fields["total"]) for each in made}


@pytest.mark.slow
def test_a_crash_between_the_tables_and_a_lost_checkpoint_change_nothing(
    spark: SparkSession, lake: Lake, job: SilverJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first order comes again in the second batch; the second was refused, and is good then.
    lake.send(job.topic, [order(1), order(2, status="lost"), order(1), order(2)])
    records, batch = bronze(spark, lake, job).persist(), SilverBatch(spark, job)
    first, second = records.where("__offset < 2"), records.where("__offset >= 2")
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "insert_new", _insert_and_fail)
        with pytest.raises(RuntimeError, match="out of power"):
            batch(first, 0)
    assert _where(spark, job) == ([(0, 0)], [])
    batch(first, 0)
    batch(second, 1)
    assert _where(spark, job) == ([(0, 0), (0, 3)], [(0, 1), (0, 2)])
    # As with a lost checkpoint, and in one batch: a verdict does not depend on batches.
    SilverBatch(spark, job)(records, 0)
    assert _where(spark, job) == ([(0, 0), (0, 3)], [(0, 1), (0, 2)])
    reasons = {row["__offset"]: row["reason"] for row in newest(spark, job.quarantine).collect()}
    assert reasons == {1: "status is not known", 2: REPEATED}


def _insert_and_fail(rows: DataFrame, table: str, lowest_offset: int) -> None:
    insert_new(rows, table, lowest_offset)
    raise RuntimeError("out of power")


def _check_silver(silver: DataFrame) -> None:
    placed = datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)
    items = [("tea pot", 1, Decimal("27.55"))]
    sent = datetime.fromtimestamp(1_700_000_000, UTC)
    rows = [
        (f"o-{n}", "c-0007", "placed", city, "CH", "CHF", Decimal(t), its, placed, 0, at, sent)
        for n, at, city, t, its in (
            (1, 0, "Zürich", "31.50", items),
            (2, 1, None, "12.50", None),
            (3, 2, "Zürich", "0.00", items),
            (14, 21, "Zürich", "31.50", items),
        )
    ]
    schema = ", ".join(f"`{name}` {kind}" for name, kind in SILVER.items())
    expected = silver.sparkSession.createDataFrame(rows, schema)
    assert_df_equality(silver, expected, ignore_row_order=True, ignore_nullable=True)


def _check_quarantine(quarantine: DataFrame, stream: DataFrame) -> None:
    """Every reason, and the whole record as the stream has it."""
    told = {offset: made.reason for offset, made in enumerate(EVERY_KIND) if made.reason}
    found = {row["__offset"]: row for row in quarantine.collect()}
    assert {offset: row["reason"] for offset, row in found.items()} == told
    currency = next(row for row in found.values() if row["reason"] == "currency is not known")
    assert currency["expectation"] == "expect_column_values_to_be_in_set(currency)"
    record = [name for name in QUARANTINE if name.startswith("__")]
    whole = stream.where(f"__offset IN ({','.join(map(str, told))})").select(record)
    kept = quarantine.select(record)
    assert_df_equality(kept, whole, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.slow
def test_records_go_on_to_silver_until_it_is_told_to_stop(
    spark: SparkSession, lake: Lake, job: SilverJob
) -> None:
    stop, batch = Event(), SilverBatch(spark, job)
    told: list[int] = []

    def work() -> None:
        told.append(run(spark, job, batch, every_s=0.5, stopped=stop.is_set))

    thread = Thread(target=work)
    thread.start()
    try:
        lake.send(job.topic, [order(1)])
        eventually(lambda: batch.rows == 1, 240)
    finally:
        stop.set()
        thread.join(120)
    assert told == [1]
    assert places(newest(spark, job.silver)) == [(0, 0)]


@pytest.mark.slow
def test_a_process_that_is_killed_between_the_two_tables_leaves_nothing_undone_or_doubled(
    spark: SparkSession, lake: Lake, job: SilverJob
) -> None:
    lake.send(job.topic, VALUES)
    flags = ["--data", lake.data, "--topic", job.topic, "--checkpoint", job.checkpoint]
    flags += ["--trigger", "available-now"]
    killed = spark_submit("local[2]", KILLED, *flags, conf={})
    assert killed.returncode == 9, killed.stdout + killed.stderr
    assert _where(spark, job) == ([(0, 0), (0, 1), (0, 2), (0, 21)], [])
    done = spark_submit("local[2]", PIPELINE, *flags, conf={})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(VALUES)} records judged" in done.stdout
    _check_silver(newest(spark, job.silver))
    _check_quarantine(newest(spark, job.quarantine), bronze(spark, lake, job))


def test_a_rule_that_cannot_be_applied_lets_nothing_pass(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 0 AS __partition, 0L AS __offset, CAST(NULL AS BINARY) AS __value")
    with pytest.raises(LakestreamError, match=r"could not be applied"):
        Gate().failures(rows)


def _where(spark: SparkSession, job: SilverJob) -> tuple[list[Place], list[Place]]:
    """The places in silver and in the quarantine, as often as they are there."""
    return places(newest(spark, job.silver)), places(newest(spark, job.quarantine))
