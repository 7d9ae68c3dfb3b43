"""`lakestream group` on a running broker: groups with members and without, and how far they are."""

from collections.abc import Iterator
from contextlib import closing
from socket import create_server

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakestream_spark.cli import group_state
from tests.support.ingress_process import eventually
from tests.support.reading import Lake, lake_in
from tests.support.shell import Shell

TOPIC = "orders"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("lake")) as found:
        found.create(TOPIC, 2)
        found.send(TOPIC, [b"%d" % n for n in range(10)], partition=0)
        found.send(TOPIC, [b"%d" % n for n in range(3)], partition=1)
        yield found


@pytest.fixture(scope="module")
def shell(lake: Lake) -> Shell:
    return Shell(["--data", lake.data])


def committed(shell: Shell, group: str, *places: str) -> None:
    flags = [word for place in places for word in ("--to-offset", place)]
    shell("group", "seek", group, "--topic", TOPIC, *flags)


def test_a_group_without_members_tells_how_far_it_is_and_is_deleted(shell: Shell) -> None:
    committed(shell, "readers", "0:4")
    # The coordinator has taken it up when it was described.
    shell("group", "describe", "readers")
    (listed,) = [each for each in shell.json("group", "list") if each["group"] == "readers"]
    assert listed == {"group": "readers", "state": "empty", "members": 0, "topics": [TOPIC]}
    assert "readers" in shell("group", "list")
    place = {"topic": TOPIC, "partition": 0, "committed": 4, "end": 10, "member": None, "lag": 6}
    assert shell.json("group", "describe", "readers") == {
        "group": "readers",
        "state": "empty",
        "members": [],
        "partitions": [place],
    }
    assert "orders  0          4          10       6    –" in shell("group", "describe", "readers")
    assert "deleted group readers" in shell("group", "delete", "readers", "--yes")
    assert "readers" not in [each["group"] for each in shell.json("group", "list")]


def test_a_group_with_a_member_tells_who_reads_what_and_is_not_deleted(
    lake: Lake, shell: Shell
) -> None:
    committed(shell, "busy", "0:10", "1:1")
    config = {"bootstrap.servers": lake.bootstrap, "group.id": "busy", "client.id": "me"}
    with closing(Consumer({**config, "enable.auto.commit": False})) as consumer:
        consumer.subscribe([TOPIC])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None

        def stable() -> bool:
            consumer.poll(0)
            return bool(shell.json("group", "describe", "busy")["state"] == "stable")

        eventually(stable)
        found = shell.json("group", "describe", "busy")
        (member,) = found["members"]
        assert (member["client"], member["assigned"]) == ("me", [[TOPIC, 0], [TOPIC, 1]])
        assert [(each["lag"], each["member"]) for each in found["partitions"]] == [
            (0, member["id"]),
            (2, member["id"]),
        ]
        (listed,) = [each for each in shell.json("group", "list") if each["group"] == "busy"]
        assert listed == {"group": "busy", "state": "stable", "members": 1, "topics": [TOPIC]}
        refused = shell("group", "delete", "busy", "--yes", code=2)
        assert refused == "lakestream: the group has members: stop them first\n"
    shell("group", "delete", "busy", "--yes")


def test_a_group_does_not_lag_behind_records_that_are_deleted(lake: Lake, shell: Shell) -> None:
    lake.create("short")
    lake.send("short", [b"%d" % n for n in range(10)])
    shell("group", "seek", "slow", "--topic", "short", "--to-offset", "0:2")
    admin = AdminClient({"bootstrap.servers": lake.bootstrap})
    for future in admin.delete_records([TopicPartition("short", 0, 7)]).values():
        future.result(60)
    (place,) = shell.json("group", "describe", "slow")["partitions"]
    assert (place["committed"], place["end"], place["lag"]) == (2, 10, 3)


def test_a_group_of_a_topic_that_is_gone_has_no_lag(lake: Lake, shell: Shell) -> None:
    lake.create("gone")
    lake.send("gone", [b"1"])
    shell("group", "seek", "left", "--topic", "gone", "--to-latest")
    lake.drop("gone")
    assert shell.json("group", "describe", "left")["partitions"] == []


def test_a_group_is_deleted_only_when_one_says_yes(shell: Shell) -> None:
    committed(shell, "kept", "0:1")
    shell("group", "delete", "kept", given="n\n", code=130)
    assert "kept" in shell("group", "describe", "kept")
    assert "deleted group kept" in shell("group", "delete", "kept", given="y\n")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("describe", "nobody"), 2, "there is no group nobody; `lakestream group list` shows all"),
        (("describe", "reader"), 2, "there is no group reader; did you mean reader-s?"),
        (("delete", "nobody", "--yes"), 2, "there is no group nobody"),
        (("list", "--broker", "127.0.0.1:1"), 3, "no broker answers at 127.0.0.1:1"),
        (("list", "--broker", "here"), 2, "'here' is not HOST:PORT"),
        (("describe", ""), 2, "a group has a name; this one is empty"),
        (("describe",), 2, "Missing argument 'GROUP'"),
    ],
)
def test_wrong_input_gets_a_sentence(
    shell: Shell, words: tuple[str, ...], code: int, sentence: str
) -> None:
    committed(shell, "reader-s", "0:4")
    shell("group", "describe", "reader-s")
    assert sentence in shell("group", *words, code=code)


@pytest.mark.parametrize("words", [("list",), ("describe", "a"), ("delete", "a", "--yes")])
def test_a_broker_that_takes_connections_and_answers_nothing_does_not_answer(
    shell: Shell, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_state, "_ASK_S", 2.0)
    with create_server(("127.0.0.1", 0)) as silent:
        broker = f"127.0.0.1:{silent.getsockname()[1]}"
        complained = shell("group", *words, "--broker", broker, code=3)
    assert complained == "lakestream: the brokers have not answered for 2 s\n"
