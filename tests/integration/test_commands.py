"""Every command on a running platform: what it says to people and programs, and of wrong input.

What a command does is tested where that is at home; here each is typed as a person types it.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from confluent_kafka import Consumer, KafkaException

from lakestream_spark.cli.consume import offsets_at
from lakestream_spark.cli.output import grid
from tests.support.reading import Lake, lake_in
from tests.support.shell import Shell
from tests.support.spark import ignore_sockets_of_spark
from tests.support.typed_commands import commands, reaches, typed


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("lake")) as found:
        fill(found, "orders")
        yield found


def fill(lake: Lake, topic: str) -> None:
    """A topic with 30 records in its table and 5 that are not in it until the next commit."""
    lake.create(topic)
    lake.send(topic, [b"%d" % n for n in range(30)])
    lake.commit()
    lake.send(topic, [b"%d" % n for n in range(30, 35)])


@pytest.fixture(scope="module")
def shell(lake: Lake) -> Shell:
    own = Shell(["--data", lake.data])
    # Nothing compacts here, so its table would be late before all tests are done.
    own("topic", "alter", "orders", "--config", "lakestream.table.lag.ms=900000")
    own("group", "seek", "readers", "--topic", "orders", "--to-offset", "0:7")
    own("group", "describe", "readers")  # Its coordinator has taken it up by then.
    return own


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_each_command_is_typed_by_some_test_of_a_running_platform(path: tuple[str, ...]) -> None:
    assert path in typed()


def test_a_command_that_nobody_types_would_be_noticed() -> None:
    assert ("connect", "duckdb") in typed()
    # It is typed below, to see it refused.
    assert ("connect", "excel") not in typed()


@pytest.mark.parametrize("command", [pytest.param(c, id=" ".join(p)) for p, c in commands()])
def test_what_can_print_a_table_can_print_json(command: click.Command) -> None:
    assert command.callback is not None
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert "--json" in flags or not reaches(command.callback, grid)


@pytest.mark.parametrize(
    "words",
    [
        ("config", "show"),
        ("cost", "--rate", "10"),
        ("group", "describe", "readers"),
        ("group", "list"),
        ("offsets", "orders"),
        ("sql", "SHOW TABLES"),
        ("status", "--topics", "orders"),
        ("topic", "describe", "orders"),
        ("topic", "list"),
        ("topic", "settings"),
        ("verify", "orders"),
    ],
    ids=" ".join,
)
def test_what_prints_a_table_prints_json_as_well(
    lake: Lake, shell: Shell, words: tuple[str, ...]
) -> None:
    own = Shell([]) if words[:2] in (("cost", "--rate"), ("topic", "settings")) else shell
    assert own.json(*words)
    assert own(*words)


def test_the_status_of_a_topic_tells_stream_table_and_wal(lake: Lake, shell: Shell) -> None:
    fill(lake, "watched")
    (found,) = shell.json("status", "--topics", "watch*")["topics"]
    table = found.pop("table")
    assert (found.pop("lag_seconds") > 0, found.pop("wal_bytes") > 0) == (True, True)
    assert found == {
        "topic": "watched",
        "partitions": 1,
        "high_watermark": 35,
        "table_end": 30,
        "lag_records": 5,
        "lag_target_seconds": 60.0,
        "problems": [],
        "quarantined": 0,
        "state": "well",
    }
    assert table["bytes"] >= table["files"] * table["median_bytes"] > 0
    assert table["last_commit_ms"] > 0
    assert "5 records, " in shell("status", "--topics", "watched")


def test_a_doctor_finds_the_stores_of_a_running_platform_well(shell: Shell) -> None:
    # Java and Spark's jars may be missing here: that is one finding of several.
    ended = shell.run("doctor", "--json")
    found: list[dict[str, Any]] = json.loads(ended.out)
    assert ended.code == (0 if all(each["is_well"] for each in found) else 1)
    well = {each["what"] for each in found if each["is_well"]}
    assert {"metadata store", "catalog lake", "warehouse", "broker"} <= well


def test_offsets_of_a_snapshot_are_where_a_consumer_goes_on(lake: Lake, shell: Shell) -> None:
    fill(lake, "replayed")
    last = shell.json("offsets", "replayed")["snapshots"][-1]
    assert last["ends"] == {"0": 30}
    start = f"snapshot:{last['snapshot_id']}"
    told = shell("consume", "replayed", "-o", start, "-e", "-f", r"%o=%s\n")
    assert told.splitlines() == [f"{n}={n}" for n in range(30, 35)]


def test_a_time_that_a_broker_cannot_look_up_is_no_beginning(lake: Lake) -> None:
    config = {"bootstrap.servers": lake.bootstrap, "group.id": "asking", "log_level": 0}
    with closing(Consumer(config)) as consumer:
        assert offsets_at(consumer, "orders", [0], 0) == {0: 0}
        with pytest.raises(KafkaException, match="partition"):
            offsets_at(consumer, "orders", [0, 99], 0)


def test_a_snippet_for_an_engine_names_the_table(shell: Shell) -> None:
    assert "streams.orders" in shell("connect", "pyiceberg", "orders")
    assert "iceberg_scan(" in shell("connect", "duckdb", "orders")


@pytest.mark.spark
@pytest.mark.long
@ignore_sockets_of_spark
def test_a_full_verification_reads_every_row_in_spark(lake: Lake, shell: Shell) -> None:
    fill(lake, "verified")
    told = shell.json("verify", "verified", "--full")
    assert (told["verified"], told["looked"]["mode"]) == (True, "full")
    assert [part["rows"] for part in told["partitions"]] == [30]


def test_a_flush_waits_until_a_compaction_has_done_it(lake: Lake, shell: Shell) -> None:
    lake.create("flushed")
    lake.send("flushed", [b"1", b"2"])
    with ThreadPoolExecutor(1) as pool:
        flushing = pool.submit(shell.run, "flush", "flushed", "--json")
        lake.commit()
        assert json.loads(flushing.result(120).out) == {"topic": "flushed", "ends": {"0": 2}}


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("config", "show", "--set", "wal"), 2, "'wal' is not KEY=VALUE"),
        (("connect", "excel", "orders"), 2, "'excel' is not one of spark, duckdb"),
        (("connect", "duckdb", "nobody"), 2, "no such topic"),
        (("connect", "trino", "orders"), 2, "Trino opens no catalog in SQLite"),
        (("flush", "nobody"), 2, "no such topic"),
        (("flush", "orders", "--timeout", "nan"), 2, "nan is not a number to count with"),
        (("flush", "waiting", "--timeout", "0.5"), 3, "no compaction is running"),
        (("group", "seek", "readers", "--topic", "nobody", "--to-latest"), 2, "no such topic"),
        (
            ("group", "seek", "readers", "--topic", "orders", "--to-datetime", "9" * 23),
            2,
            "ms is after the year 9999",
        ),
        (("group", "seek", "", "--topic", "orders", "--to-latest"), 2, "a group has a name"),
        (("offsets", "nobody"), 2, "no such topic"),
        (("offsets", "orders", "--snapshot", "9" * 23), 2, "keeps no such snapshot"),
        (("offsets", "orders", "--snapshot", "1", "--offset", "0:1"), 2, "not both"),
        (("offsets", "orders", "--offset", "first"), 2, "'first' is not PARTITION:OFFSET"),
        (("offsets", "orders", "--offset", "0:99"), 2, "no snapshot reaches this offset yet"),
        (("status", "--conf", "nowhere.toml"), 2, "nowhere.toml"),
        (("status", "--topics", "zzz*"), 2, "no topic matches 'zzz*'"),
        (("topic", "create", "orders"), 2, "orders"),
        (("topic", "create", "a/b"), 2, "a/b"),
        (("topic", "describe", "nobody"), 2, "no such topic"),
        (("topic", "alter", "orders", "--config", "no.such=1"), 2, "no.such"),
        (("topic", "alter", "orders"), 2, "give --config, --delete-config or --partitions"),
        (("topic", "delete", "nobody", "--yes"), 2, "no such topic"),
        (("verify", "nobody"), 2, "no such topic"),
        (("verify", "orders", "--partition", "9"), 2, "partition"),
        (("verify", "orders", "--sample", "0"), 2, "0 is not in the range"),
    ],
)
def test_wrong_input_gets_a_sentence(
    lake: Lake, shell: Shell, words: tuple[str, ...], code: int, sentence: str
) -> None:
    if "waiting" in words:
        lake.create("waiting")
        lake.send("waiting", [b"1"])
    complained = shell(*words, code=code)
    assert sentence in complained
    assert "Traceback" not in complained
    assert "unexpected" not in complained


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("topic", "list"),
        ("topic", "describe", "orders"),
        ("topic", "delete", "orders", "--yes"),
        ("group", "list"),
        ("group", "seek", "readers", "--topic", "orders", "--to-latest"),
        ("offsets", "orders"),
        ("connect", "duckdb", "orders"),
        ("consume", "orders"),
        ("produce", "orders"),
        ("flush", "orders"),
        ("sql", "SELECT 1"),
        ("verify", "orders"),
    ],
    ids=" ".join,
)
def test_where_nothing_is_a_command_says_how_to_start_and_makes_nothing(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    data = tmp_path / "new"
    told = Shell(["--data", str(data)])(*words, code=2)
    start = f"`lakestream up --data {data}` starts a platform there"
    assert told == f"lakestream: there is nothing in {data} yet: {start}\n"
    assert not data.exists()
