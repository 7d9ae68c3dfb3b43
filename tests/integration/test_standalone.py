"""The platform as a team runs it: S3, PostgreSQL, a broker, and a job on a Spark cluster."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.table.columns import OFFSET, VALUE
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.ingress_process import ingress
from tests.support.kafka import Sent, consume, produce
from tests.support.lake_place import Place, on_s3
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import S3Server, s3_server
from tests.support.standalone_spark import spark_submit, standalone_spark

__all__ = ["postgres_server", "postgres_url", "s3_server"]

COMPACT = Path(__file__).parents[2] / "pipelines" / "compact.py"
TOPICS = ("orders", "payments")
SENT = [Sent(b"k", json.dumps({"n": n}).encode()) for n in range(300)]
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a cluster: a master and a worker, each a process."""
    with standalone_spark(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.mark.s3
@pytest.mark.postgres
@pytest.mark.timeout(900, func_only=True)
async def test_a_job_on_a_spark_cluster_moves_everything_into_tables_on_s3(
    tmp_path: Path, master: str, s3_server: S3Server, postgres_url: str
) -> None:
    await asyncio.to_thread(_run, master, on_s3(tmp_path, s3_server, postgres_url))


def _run(master: str, place: Place) -> None:
    with ingress(place.data, "--conf", str(place.conf)) as broker:
        (listening,) = broker.ready()
        for topic in TOPICS:
            produce(listening.kafka, topic, SENT)
        flags = (*place.flags, "--trigger", "available-now")
        done = spark_submit(master, COMPACT, *flags, conf={})
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{2 * len(SENT)} rows in 2 files, 2 commits" in done.stdout
        _check_tables(place)
        got = consume(listening.kafka, "orders", offset=0, count=len(SENT))
        assert [each.value for each in got] == [each.value for each in SENT]
        assert broker.stop() == 0


def _check_tables(place: Place) -> None:
    with closing(StreamCatalog.open(catalog_spec(place.settings))) as lake:
        for topic in TOPICS:
            rows = lake._catalog.load_table(("streams", topic)).scan().to_arrow().sort_by(OFFSET)
            assert rows[OFFSET].to_pylist() == list(range(len(SENT)))
            assert rows[VALUE].to_pylist() == [each.value for each in SENT]


def test_sqlite_with_a_spark_master_elsewhere_is_refused_in_one_sentence(
    tmp_path: Path, master: str
) -> None:
    done = spark_submit(master, COMPACT, "--data", str(tmp_path), conf={})
    assert done.returncode != 0
    assert "lakestream: metadata in SQLite is for one host" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
