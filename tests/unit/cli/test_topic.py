import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream


class Shell:
    """`lakestream topic` on one data folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def ask(self, *words: str, code: int = 0) -> str:
        """What it says on either channel; it must end with this code."""
        assert run(lakestream, ["topic", *words, "--data", str(self._folder)]) == code
        told = self._capsys.readouterr()
        return told.out + told.err

    def describe(self, name: str) -> dict[str, Any]:
        return dict(json.loads(self.ask("describe", name, "--json")))


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


def test_a_topic_is_made_described_changed_and_deleted(shell: Shell) -> None:
    made = ("--partitions", "2", "--config", "lakestream.table.lag.ms=2000")
    assert "its table will be streams.orders" in shell.ask("create", "orders", *made)
    about = shell.describe("orders")
    assert about["table"] == "streams.orders"
    assert about["config"] == {"lakestream.table.lag.ms": "2000"}
    assert [each["high_watermark"] for each in about["partitions"]] == [0, 0]
    changes = ("--config", "retention.ms=5", "--delete-config", "lakestream.table.lag.ms")
    shell.ask("alter", "orders", *changes, "--partitions", "3")
    about = shell.describe("orders")
    assert about["config"] == {"retention.ms": "5"}
    assert len(about["partitions"]) == 3
    assert "its table is kept" in shell.ask("delete", "orders", "--yes")
    assert json.loads(shell.ask("list", "--json")) == []


def test_people_see_topics_in_a_table(shell: Shell) -> None:
    shell.ask("create", "orders", "--config", "lakestream.table.name=sales.all_orders")
    heads, row = shell.ask("list").splitlines()
    borders = ["log start", "table end", "high watermark"]
    assert re.split(r"\s{2,}", heads.strip()) == ["topic", "partitions", *borders, "table"]
    assert row.split() == ["orders", "1", "0", "0", "0", "sales.all_orders"]
    shown = shell.ask("describe", "orders")
    assert "high watermark" in shown
    assert "lakestream.table.name=sales.all_orders" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", "orders"), "the topic exists already"),
        (("create", "a b"), "a topic name is 1 to 249 of the characters"),
        (("create", "new", "--config", "table.lag.ms=1"), "did you mean 'lakestream.table.lag.ms'"),
        (("create", "new", "--config", "retention.ms"), "is not KEY=VALUE"),
        (("create", "new", "--partitions", "0"), "is not in the range"),
        (("create", "new", "--partitions", "100000000"), "at most 10000 partitions"),
        (("alter", "orders", "--partitions", "10001"), "at most 10000 partitions, not 10001"),
        (("describe", "nobody"), "no such topic"),
        (("alter", "orders"), "give --config, --delete-config or --partitions"),
        (("alter", "orders", "--delete-config", "retention.m"), "did you mean 'retention.ms'"),
        (("alter", "orders", "--partitions", "1"), "partitions"),
        (("alter", "orders", "--config", "foo=1"), "`lakestream topic settings` lists them all"),
        (("delete", "nobody", "--yes"), "no such topic"),
    ],
)
def test_wrong_input_gets_a_sentence(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    shell.ask("create", "orders", "--partitions", "2")
    assert sentence in shell.ask(*words, code=2)


@pytest.mark.parametrize(
    ("config", "partitions"),
    [("retention.ms=5", "1"), ("retention.ms=5", "2"), ("retention.ms=x", "3"), ("foo=1", "3")],
)
def test_a_change_of_two_things_of_which_one_is_refused_changes_nothing(
    shell: Shell, config: str, partitions: str
) -> None:
    shell.ask("create", "orders", "--partitions", "2")
    before = shell.describe("orders")
    shell.ask("alter", "orders", "--config", config, "--partitions", partitions, code=2)
    assert shell.describe("orders") == before


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [("", 2, "nobody is there to answer: add --yes"), ("n\n", 130, ""), ("y\n", 0, "deleted")],
)
def test_a_deletion_asks_and_says_how_to_answer_where_nobody_does(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, said: str
) -> None:
    shell.ask("create", "orders")
    monkeypatch.setattr("sys.stdin", StringIO(answer))
    assert said in shell.ask("delete", "orders", code=code)
    assert ("orders" in shell.ask("list")) == (code != 0)


def test_the_settings_of_topics_are_listed_with_their_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(lakestream, ["topic", "settings", "--json"]) == 0
    known = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert known["lakestream.table.lag.ms"]["default"] == "60000"
    assert all(each["doc"] for each in known.values())
