"""A demo that cannot start: one sentence with what to do, and nothing is touched."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakestream_spark.cli.demo.platform import Platform
from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.core.errors import Corrupt, Misconfigured, Transient
from lakestream_spark.ingress.listening import listen
from tests.support.small_disk import small_disk

__all__ = ["small_disk"]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the command; the one sentence of a start that is refused with code 2."""

    def start(folder: Path, *arguments: str) -> str:
        free = ["--port", "0", "--admin-port", "0"]
        assert run(lakestream, ["demo", "--data", str(folder), *free, *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1, said.err
        return said.err

    return start


@pytest.mark.parametrize(("flag", "variable"), [("--port", "PORT"), ("--admin-port", "ADMIN_PORT")])
def test_a_port_in_use_is_named_with_the_ways_to_choose_another(
    tmp_path: Path, refused: Callable[..., str], flag: str, variable: str
):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        sentence = refused(tmp_path / "data", flag, str(port))
    assert f"port {port} of 127.0.0.1 is in use" in sentence
    assert f"choose another {flag} or, with make, {variable} (0 picks a free one)" in sentence
    assert not (tmp_path / "data").exists()


def test_without_java_the_sentence_says_how_to_install_it(
    tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    sentence = refused(tmp_path / "data")
    assert "needs Java 17 or newer: install it with `apt-get install" in sentence
    assert not (tmp_path / "data").exists()


def test_a_disk_with_too_little_room_is_refused(
    small_disk: Callable[[int], Path], refused: Callable[..., str]
):
    disk = small_disk(16)
    sentence = refused(disk / "data")
    assert "has 17 MB left and the demo needs 256" in sentence
    assert "make room, or choose another folder" in sentence
    assert not (disk / "data").exists()


@pytest.mark.spark
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, refused: Callable[..., str]):
    (tmp_path / "file").write_text("not a folder")
    assert "cannot be used" in refused(tmp_path / "file" / "data")


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Callable[..., Platform]]:
    """Starts one with these settings; it is killed at the end."""
    started = []

    def start(*flags: str) -> Platform:
        free = ["up", "--data", str(tmp_path), "--port", "0", "--admin-port", "0"]
        started.append(Platform([*free, *flags], tmp_path / "demo.log"))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_a_damaged_metadata_store_is_the_sentence_of_the_demo(
    tmp_path: Path, platform: Callable[..., Platform]
):
    (tmp_path / "metadata.db").write_bytes(b"no database" * 1000)
    with pytest.raises(Corrupt, match="the metadata store's file is damaged: put a back-up"):
        platform().ready(lambda: None)


def test_a_start_that_would_be_tried_again_is_the_sentence_of_the_demo(
    platform: Callable[..., Platform],
):
    with pytest.raises(Transient, match="metadata store"):
        platform("--set", "metadata.url=postgresql://nobody@127.0.0.1:1/none").ready(lambda: None)


def test_what_the_platform_refuses_is_the_sentence_of_the_demo(tmp_path: Path):
    log = tmp_path / "demo.log"
    platform = Platform(["up", "--data", str(tmp_path), "--set", "no.such=1"], log)
    try:
        with pytest.raises(Misconfigured, match=r"there is no setting 'no\.such'"):
            platform.ready(lambda: None)
    finally:
        platform.kill()
    assert "there is no setting" in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.spark
def test_whoever_debugs_the_demo_finds_in_its_log_where_the_platform_failed(tmp_path: Path):
    (tmp_path / "metadata.db").write_bytes(b"no database" * 1000)
    # In a process of its own: a demo that has ended heeds no signal any more.
    words = [sys.executable, "-m", "lakestream_spark", "--debug", "demo", "--data", str(tmp_path)]
    free = ["--port", "0", "--admin-port", "0"]
    done = subprocess.run([*words, *free], capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert "Traceback" in (tmp_path / "demo.log").read_text()
