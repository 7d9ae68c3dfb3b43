"""`lakestream status`: the bytes of a topic in WAL and table, its lag, and whether it is red."""

import json
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.status import status
from lakestream_spark.cli.status_output import show
from lakestream_spark.cli.topic_status import TableSize, TopicStatus
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.database import Execute, Transaction
from lakestream_spark.metadata.jobs import Job
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


def behind(seconds: int, *, target_ms: int = 1_000) -> Callable[[Metadata], Awaitable[None]]:
    """What the table lacks was acknowledged so long ago."""

    def earlier() -> Transaction[None]:
        yield Execute("UPDATE segments SET created_ms = created_ms - $1", (1_000 * seconds,))

    async def done(metadata: Metadata) -> None:
        topic = await metadata.topics.get(TOPIC)
        wanted = {"lakestream.table.lag.ms": str(target_ms)}
        await metadata.topics.change_config(topic.id, lambda now: {**now, **wanted})
        await metadata.database.run(earlier())

    return done


async def leave_a_dead_job(metadata: Metadata) -> None:
    await metadata.jobs.beat(Job(id="killed", kind="compact", started_ms=1, about={}))


def test_a_table_that_nobody_brings_on_is_late_and_then_red(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform(folder=tmp_path)
    platform.send(5)
    asked = ["--data", str(tmp_path), "--set", "compact.session_timeout_ms=200"]
    assert run(status, asked) == 0
    assert "well" in capsys.readouterr().out

    platform.with_metadata(behind(10))
    assert run(status, asked) == 0
    assert "late" in capsys.readouterr().out

    platform.with_metadata(leave_a_dead_job)
    platform.with_metadata(behind(30))
    assert run(status, asked) == 1
    printed = capsys.readouterr()
    assert "red" in printed.out
    assert printed.err.startswith(f"{TOPIC} is red: its table is ")
    assert "no compaction is running for it: start `lakestream up`" in printed.err
    assert run(status, [*asked, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["topics"]
    assert (found["state"], found["lag_target_seconds"]) == ("red", 1.0)


@pytest.mark.parametrize(
    ("wrong", "code", "sentence"),
    [
        ("sqlite:////nowhere/catalog.db", 3, "the catalog or its storage does not answer"),
        ("sqlite:///{damaged}", 5, "the catalog's file is damaged: put a back-up of it in its"),
    ],
)
def test_topics_are_shown_while_the_catalog_is_of_no_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str, code: int, sentence: str
) -> None:
    platform = Platform(folder=tmp_path)
    platform.send(5)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 1000)
    asked = ["--data", str(tmp_path), "--set", f"catalog.uri={wrong.format(damaged=damaged)}"]
    assert run(status, asked) == code
    printed = capsys.readouterr()
    assert "orders" in printed.out
    assert "5 records" in printed.out
    assert printed.out.count("unknown") == 4
    assert printed.err.startswith(f"lakestream: {sentence}")
    assert len(printed.err.splitlines()) == 1
    assert run(status, [*asked, "--json"]) == code
    (found,) = json.loads(capsys.readouterr().out)["topics"]
    assert (found["table"], found["high_watermark"]) == (None, 5)


def test_a_damaged_metadata_store_is_told_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metadata.db").write_bytes(b"no database" * 1000)
    assert run(status, ["--data", str(tmp_path)]) == 5
    said = capsys.readouterr().err
    assert said.startswith("lakestream: the metadata store's file is damaged: put a back-up of it")


def test_a_pattern_that_no_topic_has_is_said_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform(folder=tmp_path)
    platform.with_metadata(lambda metadata: metadata.topics.list())
    asked = ["--data", str(tmp_path)]
    assert run(status, asked) == 0
    assert capsys.readouterr().out.startswith("no topics yet: ")
    for more in ((), ("--json",)):
        assert run(status, [*asked, "--topics", "zzz", *more]) == 2
        printed = capsys.readouterr()
        assert "lakestream: no topic matches 'zzz': `lakestream topic list`" in printed.err
        assert printed.out == ""


LONG = "a-topic-whose-name-is-longer-than-a-narrow-terminal-is-wide-" * 2
FOUND = [
    TopicStatus(
        topic=name,
        partitions=3,
        high_watermark=1_234_567_890,
        table_end=1_234_000_000,
        lag_records=567_890,
        lag_seconds=24.0,
        lag_target_seconds=target_s,
        wal_bytes=1023 * 1024,
        table=TableSize(files=123, bytes=9 << 30, median_bytes=99 << 20, last_commit_ms=1),
        problems=problems,
        quarantined=len(problems),
    )
    for name, target_s, problems in [
        ("orders", 60.0, ()),
        ("payments-of-the-north", 1.0, ()),
        (LONG, 60.0, ("somebody dropped the table",)),
    ]
]
NAMES = (
    "high watermark (sum)",
    "table end (sum)",
    "WAL",
    "files (median)",
    "last commit (UTC)",
    "set aside",
)
VALUES = "567890 records, 24 s", "123 (99.0 MiB)", "1970-01-01 00:00:00", "1234567890", "9.0 GiB"


def shown(found: list[TopicStatus], width: int) -> list[str]:
    out = StringIO()
    show(found, Console(file=out, width=width, soft_wrap=True, highlight=False, emoji=False))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 140, 400])
def test_nothing_is_cut_or_left_out_at_any_width(width: int) -> None:
    lines = shown(FOUND, width)
    assert not any("…" in line for line in lines)
    for status_ in FOUND:
        assert [line for line in lines if status_.topic in line and status_.state in line]
    for name in (*NAMES, *VALUES):
        assert [line for line in lines if name in line], name
    assert all(len(line) <= width for line in lines if LONG not in line)


@pytest.mark.parametrize(("width", "lines"), [(80, 8), (100, 6), (160, 3)])
def test_a_topic_takes_few_lines_where_a_grid_does_not_fit(width: int, lines: int) -> None:
    assert len(shown(FOUND[:2], width)) == lines
