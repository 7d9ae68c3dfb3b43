"""`lakestream ingress`: what it refuses, and how its processes are told apart."""

import logging
import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestream_spark.cli.announce import Announce
from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.cli.workers import _nth
from lakestream_spark.ingress.listening import listen
from lakestream_spark.settings import Entry, Settings, load


@pytest.fixture(autouse=True)
def _logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root, package = logging.getLogger(), logging.getLogger("lakestream_spark")
    handlers, level, own = root.handlers[:], root.level, package.level
    yield
    root.handlers[:], root.level = handlers, level
    package.setLevel(own)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]):
    """Runs the command; the one sentence of a start that is refused with code 2."""

    def start(folder: Path, *arguments: str) -> str:
        free = ["--port", "0", "--admin-port", "0"]
        assert run(lakestream, ["ingress", "--data", str(folder), *free, *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1, said.err
        return said.err

    return start


@pytest.mark.parametrize(
    ("flag", "setting"), [("--port", "broker.port"), ("--admin-port", "broker.admin_port")]
)
def test_a_port_in_use_is_refused_before_anything_is_touched(tmp_path, refused, flag, setting):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        sentence = refused(tmp_path / "data", flag, str(port))
    assert f"port {port} of 127.0.0.1 is in use" in sentence
    assert setting in sentence
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_used_is_refused(tmp_path, refused):
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert "cannot be opened" in refused(file / "below")


def test_metadata_of_a_newer_version_is_refused(tmp_path, refused):
    with sqlite3.connect(tmp_path / "metadata.db") as database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT PRIMARY KEY)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
    database.close()
    assert "has schema version 9999" in refused(tmp_path)


@pytest.mark.parametrize(
    "setting", ["store.url=memory://x", "metadata.url=sqlite://", "wal.latency.url=memory://y"]
)
def test_workers_cannot_share_what_is_in_memory(tmp_path, refused, setting):
    sentence = refused(tmp_path, "--workers", "2", "--set", setting)
    assert "it is in memory" in sentence
    assert setting.partition("=")[0] in sentence


@pytest.mark.parametrize(
    ("flag", "setting"), [("--port", "broker.port"), ("--admin-port", "broker.admin_port")]
)
def test_workers_for_whom_there_are_not_enough_ports_are_refused(tmp_path, refused, flag, setting):
    sentence = refused(tmp_path / "data", flag, "65534", "--workers", "3")
    assert f"3 workers need ports up to 65536 from {setting} = 65534 on" in sentence
    assert not (tmp_path / "data").exists()


def settings(**flags: str) -> Settings:
    entries = [
        Entry(key=key.replace("__", "."), value=value, origin="test")
        for key, value in flags.items()
    ]
    return load(environ={}, flags=entries).settings


def test_workers_get_the_next_node_ids_and_ports():
    own = settings(broker__id="5", broker__port="9000", broker__admin_port="8000")
    brokers = [_nth(own, index).broker for index in range(3)]
    assert [(b.id, b.port, b.admin_port) for b in brokers] == [
        (5, 9000, 8000),
        (6, 9001, 8001),
        (7, 9002, 8002),
    ]


def test_free_ports_stay_free_for_every_worker():
    own = _nth(settings(broker__port="0", broker__admin_port="0"), 3)
    assert (own.broker.id, own.broker.port, own.broker.admin_port) == (4, 0, 0)


def test_settings_reach_a_worker_with_their_secrets():
    own = settings(
        store__url="s3://b", store__secret_access_key="s3cret", metadata__url="sqlite:///x"
    )
    sent = pickle.loads(pickle.dumps(own))
    assert sent == own
    assert sent.store.secret_access_key.get_secret_value() == "s3cret"


def test_the_line_of_a_broker_that_is_ready():
    text = Announce.TEXT.line(1, "127.0.0.1:9092", "127.0.0.1:8092")
    assert text == (
        "lakestream broker 1 listening on 127.0.0.1:9092 (status page http://127.0.0.1:8092)"
    )
    assert Announce.JSON.line(1, "h:1", "h:2") == (
        '{"node_id": 1, "kafka": "h:1", "admin": "http://h:2"}'
    )
