"""What compose.yaml runs, run: three brokers, compaction and upkeep over S3 and PostgreSQL."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from lakestream_spark.spark.jars import S3_COORDINATES, resolve
from tests.support.composed import Composition, running
from tests.support.deployment import DEPLOY, ours
from tests.support.ingress_process import eventually
from tests.support.kafka import Sent, consume, produce
from tests.support.postgres import postgres_server, postgres_url
from tests.support.postgres_proxy import PostgresProxy
from tests.support.queries import selectors
from tests.support.s3 import BUCKET, S3Server, s3_server

__all__ = ["postgres_server", "postgres_url", "s3_server"]

pytestmark = [
    pytest.mark.s3,
    pytest.mark.postgres,
    pytest.mark.timeout(600, func_only=True),
]
BROKERS = [name for name in ours() if name.startswith("broker")]
SENT = [Sent(b"k", json.dumps({"n": n}).encode()) for n in range(200)]


@pytest.fixture
async def composition(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> AsyncIterator[Composition]:
    # By TCP, as in a network of containers: Spark reaches PostgreSQL in no other way.
    async with PostgresProxy(postgres_url) as proxy:
        yield Composition(
            folder=tmp_path,
            s3=s3_server,
            postgres=proxy.url,
            data=f"s3://{BUCKET}/{uuid4().hex}",
        )


def asked_of(jobs: str) -> set[str]:
    """The series of alerts and dashboard that a broker must have, or those of the jobs."""
    rules = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yml").read_text())["groups"]
    dashboard = (DEPLOY / "monitoring/grafana/dashboards/lakestream.json").read_text()
    queries = [rule["expr"] for group in rules for rule in group["rules"]]
    queries += _queries(json.loads(dashboard))
    names = {each.name for query in queries for each in selectors(query)}
    own = {name for name in names if name.startswith("lakestream_table_")}
    return own if jobs == "jobs" else names - own - {"up"}


def _queries(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if "expr" in node:
            yield node["expr"].replace("$__rate_interval", "1m")
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _queries(each)


def shown(page: str) -> dict[str, float]:
    """Every sample of a metrics page, summed over its labels; families without one are 0."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        ending = "_total" if family.type == "counter" else ""
        endings = ("_bucket", "_sum", "_count") if family.type == "histogram" else (ending,)
        found |= {f"{family.name}{each}": 0.0 for each in endings}
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def test_three_brokers_are_one_cluster_and_show_what_alerts_and_dashboard_ask_for(
    composition: Composition,
) -> None:
    def run() -> None:
        with running(composition, *BROKERS) as brokers:
            first, _, last = brokers
            produce(f"127.0.0.1:{first.port}", "orders", SENT)
            got = consume(f"127.0.0.1:{last.port}", "orders", offset=0, count=len(SENT))
            assert [each.value for each in got] == [each.value for each in SENT]
            eventually(
                lambda: all(shown(b.get("/metrics"))["lakestream_brokers"] == 3 for b in brokers)
            )
            for broker in brokers:
                page = shown(broker.get("/metrics"))
                assert asked_of("brokers") - set(page) == set()
                assert page["lakestream_ready"] == 1
            produced = sum(
                shown(b.get("/metrics"))["lakestream_request_bytes_total"] for b in brokers
            )
            assert produced > sum(len(each.value or b"") for each in SENT)
            assert [broker.stop() for broker in brokers] == [0, 0, 0]

    await asyncio.to_thread(run)


@pytest.mark.spark
@pytest.mark.slow
async def test_the_compaction_moves_rows_and_shows_them(composition: Composition) -> None:
    def run() -> None:
        with running(composition, "broker-1", "compact") as (broker, compact):
            topic = {"lakestream.table.lag.ms": "1000"}
            _create(broker.port, topic)
            produce(f"127.0.0.1:{broker.port}", "orders", SENT)
            eventually(lambda: _rows(compact.get("/metrics")) == len(SENT), 300)
            page = shown(compact.get("/metrics"))
            assert asked_of("jobs") - set(page) == set()
            assert compact.stop() == 0
            assert broker.stop() == 0

    await asyncio.to_thread(run)


@pytest.mark.spark
@pytest.mark.slow
async def test_upkeep_merges_files_on_s3_with_the_jars_for_it(composition: Composition) -> None:
    def run() -> None:
        resolve(S3_COORDINATES)
        with running(composition, "broker-1", "compact") as (broker, compact):
            _create(broker.port, {"lakestream.table.lag.ms": "1000"})
            for number in range(1, 20):
                produce(f"127.0.0.1:{broker.port}", "orders", SENT[:10])
                eventually(lambda: _rows(compact.get("/metrics")) >= 10 * number, 300)  # noqa: B023
            with running(composition, "maintain") as (maintain,):
                eventually(
                    lambda: (
                        shown(maintain.get("/metrics"))["lakestream_table_merged_files_total"] >= 16
                    ),
                    300,
                )
                assert maintain.stop() == 0
            got = consume(f"127.0.0.1:{broker.port}", "orders", offset=0, count=190)
            assert [each.value for each in got] == [each.value for each in SENT[:10]] * 19

    await asyncio.to_thread(run)


def _rows(page: str) -> float:
    return shown(page)["lakestream_table_rows_total"]


def _create(port: int, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    topic = NewTopic("orders", 1, 1, config=config)
    admin.create_topics([topic])["orders"].result(60)
