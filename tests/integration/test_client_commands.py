"""`lakestream produce` and `lakestream consume` on a running broker, as one uses kcat."""

import json
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGKILL
from threading import Timer
from typing import Any

import pytest

from lakestream_spark.cli import arrivals
from lakestream_spark.cli.silence import Silence
from tests.support.ingress_process import ingress
from tests.support.kafka import Sent, consume, produce
from tests.support.shell import Shell

pytestmark = pytest.mark.timeout(600)


def records(shell: Shell, *words: str) -> list[dict[str, Any]]:
    told = shell("consume", "orders", "--exit", "--json", *words)
    return [json.loads(line) for line in told.splitlines()]


def ends(shell: Shell, topic: str) -> list[dict[str, int]]:
    return list(shell.json("topic", "describe", topic)["partitions"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with ingress(folder) as process:
        (listening,) = process.ready()
        yield listening.kafka
        assert process.stop() == 0


@pytest.fixture(scope="module")
def shell(folder: Path, address: str) -> Shell:
    own = Shell(["--data", str(folder)])
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
    return own


def test_what_lines_say_is_sent_and_printed(shell: Shell) -> None:
    found = records(shell, "-p", "0")
    assert [(each["key"], each["value"]) for each in found] == [
        ("k", "v1"),
        ("", "v2"),
        (None, "v3"),
    ]
    (other,) = records(shell, "-p", "1")
    assert other["headers"] == [["a", "1"], ["a", None]]
    assert (other["value"], other["timestamp"]) == ('{"x": 1}', 1_700_000_000_123)


def test_consuming_begins_where_it_is_told_to(shell: Shell) -> None:
    assert [each["offset"] for each in records(shell, "-p", "0", "-o", "1")] == [1, 2]
    assert [each["offset"] for each in records(shell, "-p", "0", "-o", "-1")] == [2]
    assert records(shell, "-o", "end") == []
    assert records(shell, "-o", "99") == []
    assert [each["partition"] for each in records(shell, "-o", "@2024-01-01T00:00:00+00:00")] == [
        0
    ] * 3
    assert len(records(shell, "-o", "@1700000000123")) == 4


def test_a_pattern_prints_what_it_names(shell: Shell) -> None:
    shown = shell("consume", "orders", "-p", "0", "-c", "2", "-f", r"%t/%p/%o %k=%s %K %S %h %%\n")
    assert shown == "orders/0/0 k=v1 1 2 a=1 %\norders/0/1 =v2 0 2 a=1 %\n"


def test_keys_delimiters_and_nulls_are_printed_as_kcat_does(shell: Shell) -> None:
    shell("topic", "create", "nulls")
    given = '{"key": "k", "value": null}\n{"value": "v"}\n{"key": "", "value": ""}'
    shell("produce", "nulls", "--json", given=given)
    assert shell("consume", "nulls", "-e", "-K", ":") == "k:\n:v\n:\n"
    assert shell("consume", "nulls", "-e", "-Z", "-K", r"\x3a") == "k:NULL\nNULL:v\n:\n"
    assert shell("consume", "nulls", "-e", "-D", "|") == "|v||"
    assert shell("consume", "nulls", "-e", "-D", "", "-Z") == "NULLv"
    assert shell("consume", "nulls", "-e", "-Z", "-f", r"%k %s\n") == "k NULL\nNULL v\n \n"
    assert shell("consume", "nulls", "-e", "-J") == shell("consume", "nulls", "-e", "--json")


def test_consuming_ends_before_the_time_it_is_told(shell: Shell) -> None:
    shell("topic", "create", "timed", "--partitions", "2")
    lines = [
        {"value": f"{partition}/{n}", "partition": partition, "timestamp": 1_700_000_000_000 + n}
        for partition in (0, 1)
        for n in range(4 * partition + 2)
    ]
    shell("produce", "timed", "--json", given="\n".join(map(json.dumps, lines)))

    def until(time: str, *words: str) -> list[str]:
        return sorted(shell("consume", "timed", "--until", time, *words).splitlines())

    # None of these needs --exit: they are over when both partitions have reached the time.
    assert until("1700000000001") == ["0/0", "1/0"]
    assert until("1700000000003") == ["0/0", "0/1", "1/0", "1/1", "1/2"]
    assert until("1700000000005", "-o", "@1700000000003") == ["1/3", "1/4"]
    assert until("2020-01-01") == []
    assert len(until("2100-01-01")) == 8
    assert len(until("2100-01-01", "-c", "3")) == 3


def test_bytes_that_are_no_text_are_sent_as_they_were_typed(shell: Shell, address: str) -> None:
    shell("topic", "create", "typed")
    shell("produce", "typed", "-k", "\udcff", "-H", "a=\udcfe", given="v\n")
    shell("produce", "typed", "-K", "\udcfd", given="k\udcfdw\n")
    first, second = consume(address, "typed", offset=0, count=2)
    assert (first.key, first.value, first.headers) == (b"\xff", b"v", [("a", b"\xfe")])
    assert (second.key, second.value) == (b"k", b"w")
    printed = shell.run("consume", "typed", "-e", "-K", "\udcfd", "-D", "\udcfe")
    assert (printed.code, printed.out) == (0, "\udcff\udcfdv\udcfek\udcfdw\udcfe")


@pytest.mark.parametrize(
    ("words", "given", "code", "sentence"),
    [
        (("consume", "nobody"), "", 2, "no such topic"),
        (("consume", "orders", "-p", "7"), "", 2, "the topic has no such partition"),
        (
            ("consume", "orders", "-o", "soon"),
            "",
            2,
            "'soon' is no beginning: give beginning, end, N",
        ),
        (("consume", "orders", "-o", "@soon"), "", 2, "neither milliseconds nor a time"),
        (("consume", "orders", "-o", "9" * 23), "", 2, "is no offset: the largest is 9223372036"),
        (("consume", "orders", "-o", "-" + "9" * 23), "", 2, "is no offset"),
        (("consume", "orders", "-o", "9" * 5000), "", 2, "is no beginning"),
        (("consume", "orders", "-o", "@" + "9" * 23), "", 2, "ms is after the year 9999"),
        (("consume", "orders", "-p", "9" * 23), "", 2, "is not in the range"),
        (("consume", ""), "", 2, "no such topic"),
        (("consume", "orders", "-o", "snapshot:1"), "", 2, "the topic has no table yet"),
        (("consume", "orders", "-f", "%q"), "", 2, "there is no field %q"),
        (("consume", "orders", "--broker", "here"), "", 2, "is not HOST:PORT"),
        (("consume", "orders", "--broker", "127.0.0.1:1"), "", 3, "no broker answers"),
        (("consume", "orders", "--broker", "..:9092"), "", 2, "'..' is no name of a host"),
        (("consume", "orders", "--broker", "a" * 64 + ":1"), "", 2, "is no name of a host"),
        (("consume", "orders", "--broker", "a:" + "9" * 30), "", 2, "is not HOST:PORT"),
        (("consume", "orders", "--broker", "a:65536"), "", 2, "'a:65536' is not HOST:PORT"),
        (("consume", "orders", "-f", "%s", "-K", ":"), "", 2, "leave out -K, -D"),
        (("consume", "orders", "-f", "%s", "-D", ""), "", 2, "leave out -K, -D"),
        (("consume", "orders", "--until", "soon"), "", 2, "neither milliseconds nor a time"),
        (("produce", "orders", "-H", "\udcff=1"), "x", 2, "the name of a header is UTF-8"),
        (("produce", "orders", "--json"), "{", 2, "line 1 is not a record"),
        (("produce", "orders", "--json"), '{"keys": 1}', 2, "there is no field 'keys'"),
        (("produce", "orders", "--json"), "[1]", 2, 'must be an object, such as {"value": "a"}'),
        (("produce", "orders", "--json"), "[" * 100_000, 2, "line 1 is not a record"),
        (("produce", "orders", "--json"), '{"partition": 2147483648}', 2, "from 0 to 2147483647"),
        (("produce", "orders", "--json"), '{"partition": true}', 2, "a whole number"),
        (("produce", "orders", "--json"), '{"timestamp": 9223372036854775808}', 2, "timestamp is"),
        (("produce", "orders", "--json"), '{"timestamp": 1.5}', 2, "not 1.5"),
        (("produce", "orders", "--json"), '{"value": {"base64": "?"}}', 2, "'?' is no base64"),
        (("produce", "orders", "--json"), '{"key": {"base64": 5}}', 2, "'5' is no base64"),
        (("produce", "orders", "--json"), '{"headers": 5}', 2, "headers are an object, or a list"),
        (("produce", "orders", "--json"), '{"headers": [1]}', 2, "headers are an object, or a"),
        (("produce", "orders", "-p", "9" * 23), "x", 2, "is not in the range"),
        (("produce", ""), "x", 2, "topic"),
        (
            ("produce", "orders"),
            "x" * 1_100_000,
            2,
            "a record was refused: Broker: Message size too large; 0 were acknowledged before",
        ),
        (("produce", "orders"), "x" * 100_000_001, 2, "Broker: Message size too large"),
        (("produce", "orders", "--json", "-k", "x"), "", 2, "with --json the lines say keys"),
        (("produce", "orders", "-z", "rar"), "x", 2, "rar"),
        (
            ("produce", "orders", "-p", "9"),
            "x",
            2,
            "a record was refused: Local: Unknown partition",
        ),
        (("produce", "a/b"), "x", 2, "a record was refused: Broker: Invalid topic"),
    ],
)
def test_wrong_input_gets_a_sentence(
    shell: Shell, words: tuple[str, ...], given: str, code: int, sentence: str
) -> None:
    complained = shell(*words, given=given, code=code)
    assert sentence in complained
    assert "unexpected" not in complained


def test_a_topic_says_how_large_a_line_may_be(shell: Shell) -> None:
    shell("topic", "create", "large", "--config", "max.message.bytes=4000000")
    shell("produce", "large", given="x" * 3_000_000)
    assert len(shell("consume", "large", "-e")) == 3_000_001


def test_what_came_before_a_refused_line_is_counted(shell: Shell) -> None:
    shell("topic", "create", "counted")
    given = "a\nb\n" + "x" * 100_000_001
    assert "2 were acknowledged before" in shell("produce", "counted", given=given, code=2)
    assert shell("consume", "counted", "-e") == "a\nb\n"


def test_what_came_before_a_line_that_is_no_record_is_acknowledged_and_counted(
    shell: Shell,
) -> None:
    shell("topic", "create", "broken-off")
    given = '{"value": "a"}\n' * 20_000 + "bad\n"
    complained = shell("produce", "broken-off", "--json", given=given, code=2)
    assert "line 20001 is not a record" in complained
    assert "; the 20000 lines before it were acknowledged" in complained
    assert len(shell("consume", "broken-off", "-e")) == 2 * 20_000


def test_what_came_before_an_interruption_is_acknowledged_and_counted(shell: Shell) -> None:
    shell("topic", "create", "interrupted")
    with shell.started("produce", "interrupted") as process:
        assert process.stdin is not None
        process.stdin.write(b"a\n" * 20_000)
        process.stdin.flush()
        while not sum(each["high_watermark"] for each in ends(shell, "interrupted")):
            assert process.poll() is None
        process.send_signal(SIGINT)
        _, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    told = complained.decode().splitlines()[0]
    assert told == f"{len(shell('consume', 'interrupted', '-e')) // 2} records acknowledged"


def test_what_is_consumed_as_json_is_produced_as_it_was(shell: Shell, address: str) -> None:
    odd = [
        Sent(None, None),
        Sent(b"", b""),
        Sent(b"\xff\x00", b"\x80" * 100, [("h", b"\xfe"), ("h", None), ("", b""), ("h", b"\xfe")]),
        Sent(b'{"base64": "AA=="}', b'{"base64": "AA=="}', [("base64", b'{"base64": "AA=="}')]),
        Sent("→\u2028".encode(), b'a\r\n"b"\x00', [("→", "→".encode())], 1_700_000_000_123),
    ]
    shell("topic", "create", "odd")
    shell("topic", "create", "again")
    produce(address, "odd", odd)
    shell("produce", "again", "--json", given=shell("consume", "odd", "-e", "--json"))
    first, second = (consume(address, t, offset=0, count=len(odd)) for t in ("odd", "again"))
    assert first == second


@pytest.mark.parametrize(
    ("typed", "between"),
    [(r"\t", "\t"), (r"\x1f", "\x1f"), (r"\\", "\\"), ("::", "::"), (r"\0", "\0")],
)
def test_escapes_part_keys_and_values_as_in_kcat(shell: Shell, typed: str, between: str) -> None:
    topic = f"parted-{typed.encode().hex()}"
    shell("topic", "create", topic)
    shell("produce", topic, "-K", typed, given=f"key{between}value\n")
    printed = shell("consume", topic, "-e", "-f", f"%s{typed}%k")
    assert printed == f"value{between}key"


def test_an_empty_text_between_keys_and_values_is_refused(shell: Shell) -> None:
    assert "an empty text parts nothing" in shell("produce", "orders", "-K", "", code=2)


def test_a_consumer_whose_broker_is_killed_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "Silence", lambda: Silence(6.0))
    with ingress(tmp_path) as process:
        process.ready()
        own = Shell(["--data", str(tmp_path)])
        own("produce", "orders", given="a\n")
        # Longer at the end of a live topic than it would wait for one that is dead.
        killing = Timer(12.0, process.stop, [SIGKILL])
        killing.start()
        complained = own("consume", "orders", code=3)
        killing.join()
    assert complained.startswith("lakestream: no broker has answered for 6 s: ")


def test_a_partition_whose_bytes_are_lost_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "Silence", lambda: Silence(5.0))
    with ingress(tmp_path, "--set", "wal.cache_bytes=0") as process:
        process.ready()
        own = Shell(["--data", str(tmp_path)])
        own("produce", "orders", given="a\n")
        for segment in [each for each in (tmp_path / "wal").rglob("*") if each.is_file()]:
            segment.unlink()
        complained = own("consume", "orders", "--exit", code=3)
    assert "partition 0 is not at its end, and the brokers have given nothing" in complained
