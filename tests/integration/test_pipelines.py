"""pipelines/ under spark-submit, to their ends: on a folder, and on S3 as the README says."""

import asyncio
import json
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.jobs import Job
from tests.support.deployment import ROOT
from tests.support.guide import clone
from tests.support.ingress_process import ingress
from tests.support.kafka import Sent, produce
from tests.support.lake_place import Place, on_s3
from tests.support.order_records import order
from tests.support.postgres import postgres_server, postgres_url
from tests.support.postgres_proxy import PostgresProxy
from tests.support.readme import blocks
from tests.support.s3 import S3Server, s3_server
from tests.support.sparkless import SparklessCompaction
from tests.support.standalone_spark import spark_conf, spark_submit
from tests.support.verified import ONE_FILE, TOPIC, Platform

__all__ = ["postgres_server", "postgres_url", "s3_server"]

COMMITS, EACH, TAIL = 3, 20, 3
DEPLOYED = "S3, PostgreSQL and three brokers"
# Of the README's file all but the packages: their jars are in the cache.
OPENS_TABLES = {key: value for key, value in spark_conf().items() if "spark.jars" not in key}
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900, func_only=True)]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A topic with a few small files in both formats, and a tail in the WAL."""
    made = Platform(folder=tmp_path_factory.mktemp("pipelines") / "data")
    for _ in range(COMMITS):
        made.send(EACH)
        made.commit()
    made.send(TAIL)
    return made


def submitted(name: str, platform: Platform, *words: str) -> "CompletedProcess[str]":
    entry = ROOT / "pipelines" / name
    flags = (*words, "--data", str(platform.folder))
    return spark_submit("local[2]", entry, *flags, conf=OPENS_TABLES)


def test_maintain_makes_one_round_that_merges_and_ends(platform: Platform) -> None:
    assert len(platform.data_files()) == COMMITS
    done = submitted("maintain.py", platform, "--once", "--set", "maintain.merge_min_files=2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"; {COMMITS} files merged; 1 files made by merging; " in done.stdout
    assert len(platform.data_files()) == 1

    async def jobs(metadata: Metadata) -> list[Job]:
        return await metadata.jobs.list()

    assert platform.with_metadata(jobs) == [], "who has ended is no job any more"


def test_verify_reads_every_row_and_certifies_them(platform: Platform) -> None:
    done = submitted("verify.py", platform, TOPIC, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    certificate = json.loads(done.stdout.splitlines()[-1])
    assert (certificate["verified"], certificate["looked"]["mode"]) == (True, "full")
    assert certificate["delta"]["late"] is None
    (part,) = certificate["partitions"]
    assert part["rows"] == part["table_end"] == COMMITS * EACH
    assert part["high_watermark"] == COMMITS * EACH + TAIL


@pytest.mark.s3
@pytest.mark.postgres
async def test_the_jobs_that_open_tables_run_on_s3_as_the_readme_says(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> None:
    # By TCP, as from another host: Spark reaches PostgreSQL in no other way.
    async with PostgresProxy(postgres_url) as proxy:
        place = on_s3(tmp_path, s3_server, proxy.url)
        await asyncio.to_thread(typed, tmp_path, place)


def typed(folder: Path, place: Place) -> None:
    commit_orders(place)
    environ = {"LAKESTREAM_DATA": place.data, "LAKESTREAM_MAINTAIN__MERGE_MIN_FILES": "2"}
    with clone(folder, {}, environ) as reader:
        said = [reader.shell(command) for command in commands()]
    assert f"; {COMMITS} files merged; 1 files made by merging; " in said[0]
    assert "orders is whole" in said[1]
    assert f"{COMMITS * EACH} records judged" in said[2]


def commands() -> list[str]:
    """What the README has its reader type for these jobs."""
    every = [command for block in blocks(DEPLOYED) for command in block.commands]
    found = [command for command in every if "pipelines/spark.conf" in command]
    assert [command.split()[3] for command in found] == [
        f"pipelines/{name}.py" for name in ("maintain", "verify", "silver")
    ]
    return found


def commit_orders(place: Place) -> None:
    """Into the table, as a few small files."""
    with ingress(place.data, "--conf", str(place.conf)) as broker:
        (listening,) = broker.ready()
        for first in range(0, COMMITS * EACH, EACH):
            made = [Sent(None, order(n)) for n in range(first, first + EACH)]
            produce(listening.kafka, TOPIC, made)
            with closing(SparklessCompaction(place, policy=ONE_FILE)) as compaction:
                compaction.run_until_drained()
        assert broker.stop() == 0
