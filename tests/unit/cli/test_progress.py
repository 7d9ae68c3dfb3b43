"""What a person at a terminal sees, and that nobody else sees it."""

import asyncio
import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from lakestream_spark.cli.progress import CompactView, MaintainView
from lakestream_spark.core import metrics
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import open_metadata
from tests.support.embedded import embedded_lake, metadata_url
from tests.support.kafka import Sent, produce
from tests.support.terminal import terminal

ROOT = Path(__file__).parents[3]
WIDTH = 160


def seen(view: RenderableType) -> list[str]:
    """The lines that a view shows."""
    console = Console(width=WIDTH, file=io.StringIO(), legacy_windows=False)
    with console.capture() as capture:
        console.print(view)
    return [line.rstrip() for line in capture.get().splitlines()]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def _own_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the topics of other tests in this process."""
    for name, family in vars(metrics).items():
        if name.startswith(("TABLE_", "UPKEEP_")):
            monkeypatch.setattr(family, "_series", {})


def test_a_line_tells_what_a_topic_got_how_far_it_is_behind_and_how_fast_it_goes() -> None:
    clock = Clock()
    view = CompactView(drains=False, now=clock)
    assert seen(view(10)) == ["waiting for records"]
    metrics.TABLE_LAG_RECORDS.of("orders").value = 1234.0
    metrics.TABLE_LAG_SECONDS.of("orders").value = 5.5
    view(10)
    clock.now_s = 4.0
    metrics.TABLE_ROWS.of("orders").add(20_000)
    metrics.TABLE_BYTES.of("orders").add(8_000_000)
    metrics.TABLE_FILES.of("orders").add(3)
    metrics.TABLE_FAILURES.of("orders").add(2)
    (line,) = seen(view(10))
    words = "orders|20,000 rows|8.0 MB|3 files|1,234 behind, 5.5 s|5,000 rows/s|2.0 MB/s|2 failures"
    assert [word.strip() for word in line.split("  ") if word] == words.split("|")
    metrics.TABLE_LAG_RECORDS.of("orders").value = 0.0
    clock.now_s = 30.0
    view(10)
    clock.now_s = 41.0
    (line,) = seen(view(10))
    assert "up to date" in line
    assert " 0 rows/s" in line


def test_more_topics_than_lines_are_counted() -> None:
    for number in range(9):
        metrics.TABLE_ROWS.of(f"t{number}").add(1)
    lines = seen(CompactView(drains=False)(4))
    assert len(lines) == 5
    assert lines[-1] == "and 5 more topics"


def test_a_drain_tells_what_is_left_how_fast_it_goes_and_until_when() -> None:
    clock, left = Clock(), metrics.TABLE_LAG_BYTES.of()
    view = CompactView(drains=True, now=clock)
    left.value = 100e6
    assert "100.0 MB left  0.0 MB/s  no rate yet" in seen(view(10))[-1]
    clock.now_s, left.value = 10.0, 50e6
    assert "50.0 MB left  5.0 MB/s  about 10 s" in seen(view(10))[-1]
    clock.now_s, left.value = 20.0, 0.0
    assert "0.0 MB left  5.0 MB/s  about 0 s" in seen(view(10))[-1]


def test_a_line_tells_what_upkeep_did_and_when() -> None:
    view = MaintainView()
    assert seen(view(10)) == ["waiting for topics"]
    metrics.UPKEEP_FAILURES.of("orders").add(0)
    metrics.UPKEEP_MERGED_FILES.of("orders").add(16)
    metrics.UPKEEP_MERGED_BYTES.of("orders").add(3_000_000)
    (line,) = seen(view(10))
    assert line.startswith("orders  16 files merged (3.0 MB)  0 snapshots expired  0 orphans")
    assert line.endswith("not done yet")
    metrics.UPKEEP_AGE.of("orders").read_from(lambda: 12.0)
    assert seen(view(10))[0].endswith("12 s ago")


async def some_records(folder: Path, count: int) -> None:
    async with embedded_lake(folder) as lake:
        await lake.metadata.topics.create("orders")
        sent = [Sent(None, b"%d" % n) for n in range(count)]
        await asyncio.to_thread(produce, lake.bootstrap, "orders", sent)


@pytest.mark.long
def test_a_drain_at_a_terminal_shows_lines_that_are_alive_instead_of_a_log(tmp_path: Path) -> None:
    asyncio.run(some_records(tmp_path, 500))
    with terminal("tests.support.watched_drain", str(tmp_path)) as screen:
        assert screen.end() == 0, screen.shown
    assert "orders  500 rows" in screen.shown
    assert "MB left" in screen.shown
    assert "committed  topic=orders" in screen.shown
    assert " info spark.tally committed" not in screen.shown
    assert screen.shown.rstrip().endswith("drained")


@pytest.mark.long
def test_without_a_terminal_every_event_is_a_line_of_the_log(tmp_path: Path) -> None:
    asyncio.run(some_records(tmp_path, 5))
    words = [sys.executable, "-m", "tests.support.watched_drain", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "drained\n"
    assert " info spark.tally committed job=drain topic=orders rows=5 " in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.long
def test_upkeep_at_a_terminal_ends_with_a_sentence(tmp_path: Path) -> None:
    async def one_topic() -> None:
        metadata = await open_metadata(metadata_url(tmp_path), clock=SystemClock())
        await metadata.topics.create("orders")
        await metadata.close()

    asyncio.run(one_topic())
    words = ("lakestream_spark", "maintain", "--data", str(tmp_path), "--every", "0.2")
    with terminal(*words) as screen:
        screen.wait_for(r"orders  0 files merged \(0\.0 MB\) .* s ago")
        assert screen.end(signal.SIGTERM) == 0, screen.shown
    assert "maintenance starts" in screen.shown
    assert screen.shown.rstrip().endswith("rounds")
