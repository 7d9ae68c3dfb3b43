"""`lakestream config show|docs`."""

import json
import os

import pytest

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.settings.document import toml_document
from lakestream_spark.settings.tree import KEYS


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("LAKESTREAM_")]:
        monkeypatch.delenv(name)


def rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def test_show_names_the_place_of_every_value(tmp_path, monkeypatch, capsys):
    conf = tmp_path / "my.toml"
    conf.write_text("[broker]\nid = 4\n")
    monkeypatch.setenv("LAKESTREAM_BROKER__HOST", "localhost")
    arguments = ["--conf", str(conf), "--port", "0", "--set", "wal.cost.flush_interval_ms=10"]
    assert run(lakestream, ["config", "show", "--data", str(tmp_path), *arguments]) == 0
    shown = rows(capsys.readouterr().out)
    assert set(shown) == set(KEYS)
    assert shown["broker.id"] == ["4", f"{conf}:2"]
    assert shown["broker.host"] == ["localhost", "LAKESTREAM_BROKER__HOST"]
    assert shown["broker.port"] == ["0", "--port"]
    assert shown["wal.cost.flush_interval_ms"] == ["10", "--set", "wal.cost.flush_interval_ms"]
    assert shown["store.url"] == [f"file://{tmp_path}", "derived"]
    assert shown["catalog.name"] == ["lake", "default"]
    assert run(lakestream, ["config", "show", "--json", "--data", str(tmp_path), *arguments]) == 0
    listed = {each.pop("key"): each for each in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(KEYS)
    assert listed["broker.id"] == {"value": "4", "origin": f"{conf}:2"}


def test_show_hides_secrets(monkeypatch, capsys):
    monkeypatch.setenv("LAKESTREAM_STORE__SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("LAKESTREAM_METADATA__URL", "postgresql://me:s3cret@host/db")
    monkeypatch.setenv("LAKESTREAM_CATALOG__PROPERTIES", '{"token": "s3cret"}')
    assert run(lakestream, ["config", "show"]) == 0
    text = capsys.readouterr().out
    assert "s3cret" not in text
    assert rows(text)["store.secret_access_key"][0] == "(hidden)"


def test_a_wrong_setting_is_one_sentence_and_ends_with_2(capsys):
    assert run(lakestream, ["config", "show", "--set", "broker.prot=1"]) == 2
    assert capsys.readouterr().err == (
        "lakestream: --set broker.prot: there is no setting 'broker.prot'; "
        "did you mean 'broker.port'?\n"
    )


def test_an_assignment_without_a_value_is_wrong_usage(capsys):
    assert run(lakestream, ["config", "show", "--set", "broker.port"]) == 2
    assert "'broker.port' is not KEY=VALUE" in capsys.readouterr().err


def test_docs_prints_the_settings_file(capsys):
    assert run(lakestream, ["config", "docs"]) == 0
    assert capsys.readouterr().out == toml_document()
