"""Names that look like markup, emojis or orders to a terminal are printed as they are."""

from collections.abc import Iterator

import pytest

from lakestream_spark.cli.asking import table_of
from tests.support.embedded import lake_settings
from tests.support.reading import Lake, lake_in
from tests.support.shell import Shell

GROUPS = ("app[prod]", "a[/b]", "[bold]", "on :smile: time", "long-" * 40)
TAG = "v[1][/red]"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("odd") / "la[ke] :smile:"
    folder.mkdir()
    with lake_in(folder) as found:
        found.create("orders")
        found.send("orders", [b"1", b"[/2]"])
        found.commit()
        yield found


@pytest.fixture(scope="module")
def shell(lake: Lake) -> Shell:
    return Shell(["--data", lake.data])


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_listed_described_moved_and_deleted_by_its_name(shell: Shell, name: str) -> None:
    assert f"group {name} continues" in shell(
        "group", "seek", name, "--topic", "orders", "--to-offset", "0:1"
    )
    described = shell("group", "describe", name)
    assert described.startswith(f"{name} empty, 0 members\n")
    assert name in [line.partition("  ")[0] for line in shell("group", "list").splitlines()]
    assert f"deleted group {name}" in shell("group", "delete", name, "--yes")
    assert name in shell("group", "describe", name, code=2)


def test_what_a_terminal_obeys_is_shown_as_an_escape(shell: Shell) -> None:
    name = "red\x1b[31m\nand\x07"
    shell("group", "seek", name, "--topic", "orders", "--to-offset", "0:1")
    for told in (shell("group", "describe", name), shell("group", "list")):
        assert r"red\x1b[31m\nand\x07" in told
        assert "\x1b" not in told
    shell("group", "delete", name, "--yes")


def test_tags_of_a_snapshot_are_printed_whole(lake: Lake, shell: Shell) -> None:
    _, table = table_of(lake_settings(lake.folder), "orders")
    (snapshot,) = table.snapshots()
    table.manage_snapshots().create_tag(snapshot.snapshot_id, TAG).commit()
    assert TAG in shell("offsets", "orders")
    assert TAG in shell("offsets", "orders", "--snapshot", TAG)


def test_a_folder_is_printed_as_it_is_called(lake: Lake, shell: Shell) -> None:
    assert lake.data in shell("topic", "describe", "orders")
    assert lake.data in shell("connect", "duckdb", "orders")
    assert lake.data in shell("config", "show")
    ended = shell.run("doctor")
    assert lake.folder.name in ended.out


def test_values_and_columns_of_an_answer_are_printed_as_they_are(shell: Shell) -> None:
    told = shell("sql", 'SELECT decode(__value) AS "[/odd] :smile:" FROM orders')
    assert [line.rstrip() for line in told.splitlines()] == ["[/odd] :smile:", "1", "[/2]"]


def test_a_doctor_names_the_extra_that_is_missing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakestream_spark.cli.engine_checks.find_spec", lambda _: None)
    told = shell.run("doctor").out
    assert "pip install 'lakestream-spark[spark]'`, or [jobs] where" in told
