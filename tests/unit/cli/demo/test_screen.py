"""What the demo shows: whole lines for programs, lines that fit for people."""

from io import StringIO

import pytest
from rich.console import Console

from lakestream_spark.cli.demo.screen import Screen
from lakestream_spark.cli.demo.story import Chapter
from lakestream_spark.cli.demo.watch import TopicNow, topics_of

LONG = "a sentence that is much longer than any line of a narrow terminal can be, so it is " * 3
CHAPTER = Chapter(name="queried", text=LONG, at_s=12.3, details=["SELECT 1", "", "currency  EUR"])
NOW = TopicNow("orders", 12_345, 12_340, 16.04, 5, 1.26, 41)


def plain() -> tuple[Screen, StringIO]:
    out = StringIO()
    screen = Screen(Console(file=out, highlight=False, width=80))
    screen.topics = lambda: {"orders": NOW}
    return screen, out


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> tuple[Screen, StringIO]:
    monkeypatch.setenv("TERM", "xterm")
    out = StringIO()
    console = Console(file=out, highlight=False, width=80, force_terminal=True, color_system=None)
    screen = Screen(console)
    screen.topics = lambda: {"orders": NOW}
    return screen, out


def test_without_a_terminal_a_chapter_is_one_line_with_its_details_below():
    screen, out = plain()
    screen.tell(CHAPTER)
    first, *details = out.getvalue().splitlines()
    assert first == f"queried       {LONG}  (12 s)"
    assert details == ["    SELECT 1", "", "    currency  EUR"]


def test_without_a_terminal_topics_are_lines_from_time_to_time():
    screen, out = plain()
    with screen.showing():
        for at_s in (1.0, 10.0, 11.0, 19.9, 20.0):
            screen.beat(at_s)
    line = (
        "orders        12,345 records, 16.0/s, 12,340 in the table, 5 behind (1.3 s), 41 snapshots"
    )
    assert out.getvalue().splitlines() == [line, line]


def test_snapshots_that_nobody_has_looked_for_yet_are_not_said_to_be_none():
    screen, out = plain()
    screen.topics = lambda: {"orders": NOW._replace(snapshots=None)}
    with screen.showing():
        screen.beat(10.0)
    assert out.getvalue().rstrip().endswith("5 behind (1.3 s)")


def test_at_a_terminal_chapters_fit_and_nothing_is_lost(terminal: tuple[Screen, StringIO]):
    screen, out = terminal
    screen.tell(CHAPTER)
    screen.trouble("the disk is slow")
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("✓ queried      a sentence")
    assert lines[0].rstrip().endswith("12 s")
    assert "    SELECT 1" in lines
    words = " ".join(out.getvalue().replace("12 s", "").split())
    assert " ".join(LONG.split()) in words
    assert "! trouble      the disk is slow" in lines[-1]


def test_at_a_terminal_what_is_alive_is_shown_and_gone_at_the_end(
    terminal: tuple[Screen, StringIO],
):
    screen, out = terminal
    screen.doing("serving", "Ctrl-C stops")
    with screen.showing():
        pass
    assert "serving" in out.getvalue()
    assert "12,345" in out.getvalue()
    out.truncate(0)
    screen.close("it is over")
    last = out.getvalue()
    assert "■ stopped      it is over" in last
    assert "5, 1.3 s" in last


def test_what_the_status_page_answers_is_understood():
    topic = {
        "name": "orders",
        "high_watermark": 7,
        "table_end": 5,
        "records_per_s": None,
        "lag_records": 2,
        "lag_s": 1.5,
        "table": None,
    }
    with_table = {**topic, "name": "payments", "records_per_s": 3.5, "table": {"snapshots": 9}}
    without = {**topic, "name": "refunds", "table_end": 0}
    assert topics_of({"topics": [topic, with_table, without]}) == {
        "orders": TopicNow("orders", 7, 5, 0.0, 2, 1.5, None),
        "payments": TopicNow("payments", 7, 5, 3.5, 2, 1.5, 9),
        "refunds": TopicNow("refunds", 7, 0, 0.0, 2, 1.5, 0),
    }
