"""`lakestream up`: broker, compaction and upkeep in one command, as a newcomer runs it."""

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from deltalake import DeltaTable

from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.ingress_process import Ingress, Listening, eventually, ingress
from tests.support.kafka import Sent, consume, produce

ROOT = Path(__file__).parents[2]
TOPIC = "orders"
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def lakestream(*arguments: str, code: int = 0) -> str:
    """What a command says; it must end with this exit code."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
    command = [sys.executable, "-m", "lakestream_spark", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def flushed(folder: Path) -> dict[str, Any]:
    told = lakestream("flush", TOPIC, "--data", str(folder), "--json", "--timeout", "240")
    return dict(json.loads(told.splitlines()[0]))


def send(broker: Listening, first: int, count: int) -> None:
    values = [Sent(b"k", b"%d" % n) for n in range(first, first + count)]
    assert produce(broker.kafka, TOPIC, values) == list(range(first, first + count))


def configure(broker: Listening, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(
            f"lakestream.table.{name}",
            value,
            incremental_operation=AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    for change in admin.incremental_alter_configs([resource]).values():
        change.result(60)


def check_readers(folder: Path, count: int) -> None:
    """pyiceberg, DuckDB and delta-rs agree on what the table has."""
    with closing(StreamCatalog.open(catalog_spec(folder))) as tables:
        table = tables._catalog.load_table(("streams", TOPIC))
        found = table.scan().to_arrow()
        assert sorted(found[OFFSET].to_pylist()) == list(range(count))
        assert sorted(DeltaTable(table.location()).to_pyarrow_table()[OFFSET].to_pylist()) == list(
            range(count)
        )
        with duckdb.connect() as connection:
            connection.register("orders", found)
            query = "SELECT count(*), sum(CAST(CAST(__value AS VARCHAR) AS BIGINT)) FROM orders"
            assert connection.sql(query).fetchall() == [(count, count * (count - 1) // 2)]


def metrics_of_compaction(process: Ingress) -> str:
    """The page of the compaction's own admin port, which its log names; empty before that."""
    told = re.search(r"compaction starts.*admin=(http://\S+)", "".join(process.log))
    return "" if told is None else Listening(0, "", told[1]).get("/metrics")[1]


def test_a_record_sent_to_up_is_a_row_within_its_lag_and_at_once_after_a_flush(tmp_path: Path):
    with ingress(tmp_path, name="up") as process:
        (broker,) = process.ready()
        send(broker, 0, 500)
        lakestream("flush", "no-such-topic", "--data", str(tmp_path), code=2)
        assert flushed(tmp_path) == {"topic": TOPIC, "ends": {"0": 500}}
        page = metrics_of_compaction(process)
        assert 'lakestream_table_rows_total{topic="orders"} 500.0' in page
        assert process.stop() == 0
        assert "started again" not in "".join(process.log)

    lakestream("flush", TOPIC, "--data", str(tmp_path))  # nothing is left, so nobody is needed

    with ingress(tmp_path, name="up") as process:
        (broker,) = process.ready()
        configure(broker, {"lag.ms": "1000", "formats": "iceberg,delta"})
        send(broker, 500, 100)
        eventually(
            lambda: 'rows_total{topic="orders"} 100.0' in metrics_of_compaction(process), 240
        )
        check_readers(tmp_path, 600)
        got = consume(broker.kafka, TOPIC, offset=0, count=600)
        assert [int(each.value) for each in got] == list(range(600))  # type: ignore[arg-type]
        assert process.stop() == 0
    said = lakestream("compact", "--data", str(tmp_path), "--trigger", "available-now")
    assert "0 rows in 0 files" in said
