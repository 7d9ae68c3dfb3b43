"""`lakestream group seek`: a consumer continues exactly where a query of a snapshot ended."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.reading import Lake, lake_in

TOPIC = "orders"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("lake")) as found:
        found.create(TOPIC)
        for first in (0, 5):
            found.send(TOPIC, [b"%d" % n for n in range(first, first + 5)])
            found.commit()
        found.send(TOPIC, [b"%d" % n for n in range(10, 12)])
        yield found


def snapshots(lake: Lake) -> list[int]:
    with closing(StreamCatalog.open(catalog_spec(lake.folder))) as tables:
        table = tables._catalog.load_table(("streams", TOPIC))
        return [each.snapshot_id for each in table.snapshots()]


def seek(lake: Lake, *arguments: str, group: str = "readers") -> int:
    place = ("--topic", TOPIC, "--data", lake.data)
    return run(lakestream, ["group", "seek", group, *place, *arguments])


@contextmanager
def member(lake: Lake, group: str = "readers") -> Iterator[Consumer]:
    """A consumer that is in the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": lake.bootstrap,
            "group.id": group,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        yield consumer
    finally:
        consumer.close()


def next_value(consumer: Consumer) -> bytes | None:
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None
    return message.value()


def test_a_group_continues_where_a_snapshot_ended(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = snapshots(lake)
    assert seek(lake, "--snapshot", str(second), "--json") == 0
    assert json.loads(capsys.readouterr().out)["offsets"] == {"0": 10}
    with member(lake) as consumer:
        assert next_value(consumer) == b"10"
        assert seek(lake, "--snapshot", str(first)) == 2
        assert "the group has members" in capsys.readouterr().err
    assert seek(lake, "--snapshot", str(first)) == 0
    assert "continues orders at 0: 5" in capsys.readouterr().out
    with member(lake) as consumer:
        assert next_value(consumer) == b"5"


def test_groups_are_moved_without_a_broker_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moves = {
        "earliest": (("--to-earliest",), 0),
        "latest": (("--to-latest",), 12),
        "offset": (("--to-offset", "0:7"), 7),
        "old": (("--to-datetime", "2023-11-14T00:00:00"), 0),
        "new": (("--to-datetime", "2030-01-01"), 12),
    }
    with lake_in(tmp_path) as lake:
        lake.create(TOPIC)
        lake.send(TOPIC, [b"%d" % n for n in range(12)])
        lake.commit()
    for group, (to, offset) in moves.items():
        assert seek(lake, *to, "--json", group=group) == 0
        assert json.loads(capsys.readouterr().out)["offsets"] == {"0": offset}
    with lake_in(tmp_path) as lake:
        lake.send(TOPIC, [b"12"])
        for group, (_, offset) in moves.items():
            with member(lake, group) as consumer:
                assert next_value(consumer) == b"%d" % offset


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        (("--snapshot", "12345"), "keeps no such snapshot"),
        (("--snapshot", "daily"), "no such tag"),
        (("--to-offset", "0:13"), "outside the log"),
        (("--to-offset", "3:0"), "no such partition"),
        (("--to-offset", "3"), "'3' is not PARTITION:OFFSET"),
        (("--to-datetime", "noon"), "'noon' is neither milliseconds nor a time"),
        (("--to-latest", "--to-earliest"), "give one of"),
        ((), "give one of"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    lake: Lake, capsys: pytest.CaptureFixture[str], to: tuple[str, ...], sentence: str
) -> None:
    assert seek(lake, *to) == 2
    assert sentence in capsys.readouterr().err
