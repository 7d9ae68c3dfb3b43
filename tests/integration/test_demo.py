"""`make run` as a newcomer sees it: the story, a second start, Ctrl-C, kills and a full disk."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from lakestream_spark.cli.demo.story import CHAPTERS
from tests.support.ports import free_port
from tests.support.shell import Shell
from tests.support.small_disk import fill, small_disk
from tests.support.terminal import terminal

__all__ = ["small_disk"]

ROOT = Path(__file__).parents[2]
RUN_FOR_S = 90
FREE = ("--port", "0", "--admin-port", "0")
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of the first start."""
    return tmp_path_factory.mktemp("demo") / "data"


class First(NamedTuple):
    """What the first start said until it had ended by itself, and the topics that it left."""

    said: str
    topics: list[dict[str, Any]]
    certificate: str


@pytest.fixture(scope="module")
def first(folder: Path) -> First:
    words = {"DATA": folder, "PORT": free_port(), "ADMIN_PORT": 0, "RUN_FOR": RUN_FOR_S}
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
    began = time.monotonic()
    done = subprocess.run(
        ["make", "run"],
        cwd=ROOT,
        env=environ | {name: str(value) for name, value in words.items()},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began > RUN_FOR_S
    shell = Shell(["--data", str(folder)])
    return First(done.stdout, shell.json("topic", "list"), shell("verify", "payments"))


def records(topics: list[dict[str, Any]]) -> list[int]:
    """Of each topic, in the order of their names."""
    return [sum(part["high_watermark"] for part in topic["partitions"]) for topic in topics]


def test_the_story_is_told_in_its_order_as_plain_lines(first: First, folder: Path):
    said = first.said
    lines = [line for line in said.splitlines() if line.partition(" ")[0] in CHAPTERS]
    assert [line.partition(" ")[0] for line in lines] == list(CHAPTERS)
    assert "trouble" not in said
    assert re.search(r"as snapshot \d{10,}, [\d,]+ rows in \d+ files; first row in the table", said)
    assert re.search(r"([\d,]+) records from offset 0 on out of Parquet", said)
    assert "decode(__value)->>'$.total'" in said
    assert re.search(r"currency +[A-Z]{3}", said)
    assert "bootstrap.servers=127.0.0.1:" in said
    assert f"iceberg_scan('{folder}/warehouse/streams/orders-" in said
    assert f'lakestream_spark.session(data="{folder}")' in said
    assert "status page   http://127.0.0.1:" in said
    assert f"`make run DATA={folder}` goes on from there" in said


def test_what_was_acknowledged_is_there_and_whole_after_the_end(first: First):
    told = re.search(r"stopped +([\d,]+) records were sent and acknowledged", first.said)
    assert told is not None
    assert sum(records(first.topics)) == int(told[1].replace(",", ""))
    lags = [topic["config"]["lakestream.table.lag.ms"] for topic in first.topics]
    assert lags == ["2000", "2000"]
    assert [len(topic["partitions"]) for topic in first.topics] == [3, 3]
    assert "payments is whole" in first.certificate


def test_a_second_start_finds_the_data_and_tells_the_story_again_to_its_end(
    first: First, folder: Path
):
    shell = Shell(["--data", str(folder)])
    before = records(shell.json("topic", "list"))
    with terminal("lakestream_spark", "demo", "--data", str(folder), *FREE) as screen:
        # Told after the last chapter.
        screen.wait_for(r"status page\s+http")
        assert screen.end(signal.SIGINT) == 0, screen.shown
    found = re.search(r"found\s+([\d,]+)\s+orders\s+and\s+([\d,]+)\s+payments", screen.shown)
    assert found is not None
    assert [int(text.replace(",", "")) for text in found.groups()] == before
    assert min(before) > 0
    sent = re.search(r"([\d,]+)\s+records\s+were\s+sent\s+and\s+acknowledged", screen.shown)
    assert sent is not None
    after = records(shell.json("topic", "list"))
    assert sum(after) == sum(before) + int(sent[1].replace(",", ""))
    assert "payments is whole" in shell("verify", "payments")


@pytest.mark.slow
def test_who_asks_twice_does_not_wait_for_the_end(first: First, folder: Path):
    with terminal("lakestream_spark", "demo", "--data", str(folder), *FREE) as screen:
        screen.wait_for("acknowledged")
        screen.process.send_signal(signal.SIGINT)
        screen.wait_for("stopping")
        began = time.monotonic()
        assert screen.end(signal.SIGINT) == 130
        assert time.monotonic() - began < 15
    assert "Traceback" not in screen.shown
    assert "■ stopped" in screen.shown


def test_ctrl_c_stops_in_good_order_and_says_how_to_go_on(first: First, folder: Path):
    with terminal("lakestream_spark", "demo", "--data", str(folder), *FREE) as screen:
        screen.wait_for("acknowledged")
        platform = psutil.Process(screen.process.pid).children(recursive=True)
        assert screen.end(signal.SIGINT) == 130, "the story had not come to its end"
    assert "Traceback" not in screen.shown
    assert re.search(r"records\s+were\s+sent\s+and\s+acknowledged", screen.shown)
    assert re.search(rf"demo\s+--data\s+{folder}", screen.shown)
    assert psutil.wait_procs(platform, 30)[1] == []


@pytest.mark.slow
def test_a_demo_that_is_killed_takes_its_platform_with_it(first: First, folder: Path):
    with terminal("lakestream_spark", "demo", "--data", str(folder), *FREE) as screen:
        screen.wait_for("acknowledged")
        platform = psutil.Process(screen.process.pid).children(recursive=True)
        assert len(platform) > 2
        screen.process.kill()
        assert psutil.wait_procs(platform, 60)[1] == []


def test_a_disk_that_becomes_full_is_one_sentence(small_disk: Callable[[int], Path]):
    disk = small_disk(320)
    command = [sys.executable, "-m", "lakestream_spark", "demo", "--data", str(disk / "data")]
    with subprocess.Popen(
        [*command, *FREE], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("acknowledged"):
                break
        fill(disk)
        out, err = demo.communicate(timeout=120)
    assert demo.returncode == 3, out + err
    (sentence,) = err.splitlines()
    assert f"the disk of {disk}/data is full, so the broker takes no records" in sentence
    assert "Traceback" not in out
