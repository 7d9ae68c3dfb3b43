"""What Spark repeats is in the table once: tasks, batches, and what a checkpoint brings back."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from chispa import assert_df_equality
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.spark import compact
from lakestream_spark.spark.driver import CompactDriver
from lakestream_spark.table.columns import OFFSET, VALUE
from lakestream_spark.table.layout import ENDS_PROPERTY
from tests.support.clumsy_task import DyingTask, StragglingTask, attempts
from tests.support.compacting import compact_job, compacting
from tests.support.embedded import lake_settings
from tests.support.ingress_process import eventually, ingress
from tests.support.kafka import Sent, produce
from tests.support.postgres import postgres_server, postgres_url
from tests.support.spark import ignore_sockets_of_spark, spark_session
from tests.support.standalone_spark import standalone_spark

__all__ = ["postgres_server", "postgres_url"]

ROOT: Final = Path(__file__).parents[3]
WITHIN_S: Final = 300.0
BATCH: Final = 10
pytestmark = [pytest.mark.spark, pytest.mark.long, ignore_sockets_of_spark]


@dataclass(slots=True, kw_only=True)
class Orders:
    """A topic with one partition whose values are their offsets, and its table."""

    bootstrap: str
    settings: Settings
    sent: int = 0

    def send(self, batches: int) -> None:
        """Each batch in a WAL segment of its own, so that each is a task."""
        for _ in range(batches):
            values = [Sent(None, b"%d" % n) for n in range(self.sent, self.sent + BATCH)]
            produce(self.bootstrap, "orders", values, **{"linger.ms": 50})
            self.sent += BATCH

    def is_moved(self) -> bool:
        with self.table() as table:
            return table is not None and table.properties.get(ENDS_PROPERTY) == str(self.sent)

    @contextmanager
    def table(self) -> Iterator[Table | None]:
        with closing(catalog_spec(self.settings).open()) as catalog:
            name = ("streams", "orders")
            yield catalog.load_table(name) if catalog.table_exists(name) else None

    def files(self) -> tuple[list[Path], list[Path]]:
        """The data files of the table, and those beside them that it does not have."""
        with self.table() as table:
            assert table is not None
            paths = table.inspect.data_files()["file_path"].to_pylist()
            folder = Path(table.location().removeprefix("file://")) / "_data"
        live = [Path(path.removeprefix("file://")) for path in paths]
        return live, sorted(set(folder.rglob("*.parquet")) - set(live))

    def check(self) -> None:
        with self.table() as table:
            assert table is not None
            rows = table.scan().to_arrow().sort_by(OFFSET)
        assert rows[OFFSET].to_pylist() == list(range(self.sent))
        assert rows[VALUE].to_pylist() == [b"%d" % n for n in range(self.sent)]


@contextmanager
def orders_in(folder: Path, **more: str) -> Iterator[Orders]:
    """A broker with the topic."""
    settings = lake_settings(folder, more=more)
    flags = [word for key, value in more.items() for word in ("--set", f"{key}={value}")]
    with ingress(folder, *flags) as broker:
        (listening,) = broker.ready()
        admin = AdminClient({"bootstrap.servers": listening.kafka})
        topic = NewTopic("orders", 1, 1, config={"lakestream.table.lag.ms": "1000"})
        for future in admin.create_topics([topic]).values():
            future.result(60)
        yield Orders(bootstrap=listening.kafka, settings=settings)


def frame(spark: SparkSession, values: range) -> DataFrame:
    rows = [(0, n, b"%d" % n) for n in values]
    return spark.createDataFrame(rows, "__partition int, __offset bigint, __value binary")


@pytest.mark.slow
@pytest.mark.timeout(1200, func_only=True)
def test_whatever_spark_does_again_is_in_the_table_once(tmp_path, monkeypatch):
    with (
        orders_in(tmp_path / "data") as orders,
        # Four failures of a task are allowed: without that a local Spark gives up at the first.
        spark_session(catalog_spec(orders.settings), master="local[2,4]") as spark,
    ):
        a_task_whose_worker_dies_is_run_again(orders, spark, tmp_path, monkeypatch)
        (tmp_path / "checkpoint").rename(tmp_path / "old")  # For what follows, it is lost.
        a_batch_that_was_committed_is_replayed(orders, spark, tmp_path, monkeypatch)
        an_old_checkpoint_comes_back(orders, spark, tmp_path)
        found = spark.table(f"{catalog_spec(orders.settings).name}.streams.orders")
        assert_df_equality(
            found.select("__partition", "__offset", "__value"),
            frame(spark, range(orders.sent)),
            ignore_row_order=True,
            ignore_nullable=True,
            ignore_metadata=True,
        )


def a_task_whose_worker_dies_is_run_again(
    orders: Orders, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first files are orphans; the query's progress counts what is in the table."""
    diary = folder / "diary"
    diary.mkdir()
    orders.send(4)
    with monkeypatch.context() as patch:
        patch.setattr(compact, "CompactTask", partial(DyingTask, diary=diary))
        with compacting(spark, compact_job(orders.settings, folder / "checkpoint")) as progress:
            eventually(lambda: progress.sums["records"] >= orders.sent, WITHIN_S)
            eventually(orders.is_moved, WITHIN_S)
    orders.check()
    tried = attempts(diary)
    assert set(tried.values()) == {2}
    live, orphans = orders.files()
    assert len(orphans) == len(live) == len(tried)
    assert progress.sums["records"] == orders.sent
    assert progress.sums["files"] == len(live)
    assert progress.sums["bytes"] == sum(path.stat().st_size for path in live)
    assert progress.sums["wal_bytes"] > 0
    assert progress.starts == 1


def a_batch_that_was_committed_is_replayed(
    orders: Orders, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver fails after its commit, before Spark has noted that the batch is done."""
    batches: list[int] = []
    commit = CompactDriver.commit_batch

    def commit_and_fail_once(driver: CompactDriver, results: DataFrame, batch_id: int) -> None:
        commit(driver, results, batch_id)
        batches.append(batch_id)
        if orders.is_moved() and len(set(batches)) == len(batches):
            raise RuntimeError("the driver fails after its commit")

    orders.send(2)
    with monkeypatch.context() as patch:
        patch.setattr(CompactDriver, "commit_batch", commit_and_fail_once)
        with compacting(spark, compact_job(orders.settings, folder / "checkpoint")) as progress:
            eventually(lambda: len(set(batches)) < len(batches), WITHIN_S)
    assert progress.starts > 1
    orders.check()


def an_old_checkpoint_comes_back(orders: Orders, spark: SparkSession, folder: Path) -> None:
    shutil.rmtree(folder / "checkpoint")
    (folder / "old").rename(folder / "checkpoint")
    orders.send(2)
    with compacting(spark, compact_job(orders.settings, folder / "checkpoint")):
        eventually(orders.is_moved, WITHIN_S)
    orders.check()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(1200, func_only=True)
def test_a_task_that_is_run_twice_at_once_is_in_the_table_once(
    tmp_path, monkeypatch, postgres_url: str
):
    """Spark speculates on clusters only, and never twice on one host: these have two names."""
    diary = tmp_path / "diary"
    diary.mkdir()
    monkeypatch.setattr(compact, "CompactTask", partial(StragglingTask, diary=diary))
    more = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }
    where = {"metadata.url": postgres_url, "catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    with (
        orders_in(tmp_path / "data", **where) as orders,
        standalone_spark(tmp_path, cores=1, hosts=("127.0.0.1", "127.0.0.2")) as master,
        spark_session(catalog_spec(orders.settings), master=master, more=more) as spark,
    ):
        orders.send(4)
        with compacting(spark, compact_job(orders.settings, tmp_path / "checkpoint")) as progress:
            eventually(lambda: progress.sums["records"] >= orders.sent, WITHIN_S)
            eventually(orders.is_moved, WITHIN_S)
        orders.check()
        live, orphans = orders.files()
    tried = attempts(diary)
    assert sorted(tried.values()) == [1] * (len(tried) - 1) + [2]
    assert len(orphans) == 1
    assert len(live) == len(tried) >= 4
    assert progress.sums["records"] == orders.sent
