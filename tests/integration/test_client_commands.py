"""`lakestream produce` and `lakestream consume` on a running broker, as one uses kcat."""

import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from tests.support.ingress_process import ingress

pytestmark = pytest.mark.timeout(600)


class Shell:
    """Commands on one data folder, whose brokers they find by themselves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, *words: str, given: str = "", code: int = 0) -> str:
        """What the command says, which must end with this code."""
        out, err = TextIOWrapper(BytesIO()), TextIOWrapper(BytesIO())
        standard = TextIOWrapper(BytesIO(given.encode()))
        with patch("sys.stdin", standard), redirect_stdout(out), redirect_stderr(err):
            ended = run(lakestream, [*words, "--data", str(self._folder)])
        said, complained = _text(out), _text(err)
        assert ended == code, said + complained
        return said if code == 0 else complained

    def records(self, *words: str) -> list[dict[str, Any]]:
        told = self("consume", "orders", "--exit", "--json", *words)
        return [json.loads(line) for line in told.splitlines()]


def _text(stream: TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("lake")
    with ingress(folder) as process:
        process.ready()
        own = Shell(folder)
        own("topic", "create", "orders", "--partitions", "2")
        own("produce", "orders", "-p", "0", "-K", ":", "-H", "a=1", given="k:v1\n:v2\nv3\n")
        line = {
            "value": {"x": 1},
            "key": None,
            "headers": [["a", "1"], ["a", None]],
            "partition": 1,
            "timestamp": 1_700_000_000_123,
        }
        own("produce", "orders", "--json", given=json.dumps(line))
        yield own
        assert process.stop() == 0


def test_what_lines_say_is_sent_and_printed(shell: Shell) -> None:
    found = shell.records("-p", "0")
    assert [(each["key"], each["value"]) for each in found] == [
        ("k", "v1"),
        ("", "v2"),
        (None, "v3"),
    ]
    (other,) = shell.records("-p", "1")
    assert other["headers"] == [["a", "1"], ["a", None]]
    assert (other["value"], other["timestamp"]) == ('{"x": 1}', 1_700_000_000_123)


def test_consuming_begins_where_it_is_told_to(shell: Shell) -> None:
    assert [each["offset"] for each in shell.records("-p", "0", "-o", "1")] == [1, 2]
    assert [each["offset"] for each in shell.records("-p", "0", "-o", "-1")] == [2]
    assert shell.records("-o", "end") == []
    assert [each["partition"] for each in shell.records("-o", "@2024-01-01T00:00:00+00:00")] == [
        0
    ] * 3
    assert len(shell.records("-o", "@1700000000123")) == 4


def test_a_pattern_prints_what_it_names(shell: Shell) -> None:
    shown = shell("consume", "orders", "-p", "0", "-c", "2", "-f", r"%t/%p/%o %k=%s %K %S %h %%\n")
    assert shown == "orders/0/0 k=v1 1 2 a=1 %\norders/0/1 =v2 0 2 a=1 %\n"


@pytest.mark.parametrize(
    ("words", "given", "code", "sentence"),
    [
        (("consume", "nobody"), "", 2, "no such topic"),
        (("consume", "orders", "-p", "7"), "", 2, "the topic has no such partition"),
        (("consume", "orders", "-o", "soon"), "", 2, "'soon' is no beginning"),
        (("consume", "orders", "-o", "@soon"), "", 2, "neither milliseconds nor a time"),
        (("consume", "orders", "-o", "snapshot:1"), "", 2, "the topic has no table yet"),
        (("consume", "orders", "-f", "%q"), "", 2, "there is no field %q"),
        (("consume", "orders", "--broker", "here"), "", 2, "is not HOST:PORT"),
        (("consume", "orders", "--broker", "127.0.0.1:1"), "", 3, "no broker answers"),
        (("produce", "orders", "--json"), "{", 2, "line 1 is not a record"),
        (("produce", "orders", "--json"), '{"keys": 1}', 2, "there is no field 'keys'"),
        (("produce", "orders", "--json", "-k", "x"), "", 2, "with --json the lines say keys"),
        (("produce", "orders", "-z", "rar"), "x", 2, "rar"),
    ],
)
def test_wrong_input_gets_a_sentence(
    shell: Shell, words: tuple[str, ...], given: str, code: int, sentence: str
) -> None:
    assert sentence in shell(*words, given=given, code=code)
