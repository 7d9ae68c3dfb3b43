"""`lakestream status`: the bytes of a topic in WAL and table, its lag, and whether it is red."""

import json
from pathlib import Path

import pytest

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.status import status
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.tables import Quarantined
from lakestream_spark.table.commit import lease_name
from tests.support.verified import TOPIC, Platform


async def redden(metadata: Metadata) -> None:
    topic = await metadata.topics.get(TOPIC)
    lease = await metadata.leases.try_acquire("table", "test", 1.0)
    assert lease is not None
    problem = Problem(topic.id, None, "somebody dropped the table", "restore it", 0)
    await metadata.problems.report(lease, problem)


async def set_aside(metadata: Metadata) -> None:
    topic = await metadata.topics.get(TOPIC)
    lease = await metadata.leases.try_acquire(lease_name(topic.id), "test", 1.0)
    assert lease is not None
    batch = Quarantined(0, 0, 2, "file:///quarantine/0.batch", "its content is no records")
    await metadata.tables.finish(lease, topic.id, "commit", {0: 2}, [batch])


def test_batches_that_were_set_aside_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform(folder=tmp_path)
    platform.send(2)
    platform.with_metadata(set_aside)
    assert run(status, ["--data", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["topics"]
    assert found["quarantined"] == 1
    assert run(status, ["--data", str(tmp_path)]) == 0
    assert "set aside" in capsys.readouterr().out


def test_bytes_lag_and_problems_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform(folder=tmp_path)
    platform.send(30)
    platform.commit()
    platform.send(5)
    asked = ["--data", str(tmp_path)]
    assert run(status, [*asked, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["topics"]
    (file,) = platform.data_files()
    assert (found["high_watermark"], found["table_end"], found["lag_records"]) == (35, 30, 5)
    assert found["table"]["bytes"] == found["table"]["median_bytes"] == file.stat().st_size
    assert (found["table"]["files"], found["table"]["retained_bytes"]) == (1, 0)
    assert found["wal_bytes"] > 0
    assert found["lag_seconds"] > 0

    platform.with_metadata(redden)
    assert run(status, asked) == 1
    printed = capsys.readouterr()
    assert "5 records" in printed.out
    assert printed.err.startswith(f"{TOPIC} is red: somebody dropped the table; restore it")
    assert run(status, [*asked, "--topics", "other*"]) == 0
