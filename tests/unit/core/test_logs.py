"""Structured logs: one line per event, in two formats, and never too many of a kind."""

import io
import json
import logging

import pytest

from lakestream_spark.core import logs

LOGGER = logging.getLogger("lakestream_spark.ingress.somewhere")


@pytest.fixture
def lines():
    """Configures the logs into memory; gives the lines written so far."""
    root, package = logging.getLogger(), logging.getLogger("lakestream_spark")
    kept = (root.handlers[:], root.level, package.level)
    stream = io.StringIO()

    def configure(form: logs.Format = "text", level: str = "info") -> None:
        logs.configure(level=level, form=form, stream=stream, context={"broker": 7})

    configure()
    yield lambda *args: configure(*args) if args else stream.getvalue().splitlines()
    root.handlers[:], root.level = kept[0], kept[1]
    package.setLevel(kept[2])


def test_an_event_is_a_sentence_and_its_facts(lines):
    logs.event(LOGGER, logging.WARNING, "a peer misbehaved", peer="1.2.3.4:5", why="two words")
    (line,) = lines()
    _, text = line.split(" ", 1)
    assert text == (
        'warning ingress.somewhere a peer misbehaved broker=7 peer=1.2.3.4:5 why="two words"'
    )


def test_json_holds_the_same_parts(lines):
    lines("json")
    logs.event(LOGGER, logging.INFO, "it happened", count=3, error=ValueError("bad"))
    parts = json.loads(lines()[0])
    assert parts.pop("time").endswith("Z")
    assert parts == {
        "level": "info",
        "from": "ingress.somewhere",
        "event": "it happened",
        "broker": 7,
        "count": 3,
        "error": "bad",
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_event_is_one_line_whatever_it_holds(lines, form):
    lines(form)
    logs.event(LOGGER, logging.INFO, "hostile", name='a\nb\r\x1b[31m" c=d\u2028')
    LOGGER.warning("plain %s", "x\ny")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        LOGGER.exception("failed")
    assert len(lines()) == 3
    assert all("\x1b" not in line for line in lines())


def test_events_below_the_level_cost_nothing_and_say_nothing(lines):
    lines("text", "warning")
    logs.event(LOGGER, logging.INFO, "quiet")
    assert lines() == []


def test_a_flood_of_one_sentence_is_a_few_lines_and_the_number_left_out(lines, monkeypatch):
    now = 0.0
    monkeypatch.setattr("lakestream_spark.core.logs.time.monotonic", lambda: now)
    for port in range(1000):
        logs.event(LOGGER, logging.WARNING, "a peer misbehaved", peer=port)
        LOGGER.warning("closing %s", port)
    logs.event(LOGGER, logging.WARNING, "another sentence")
    assert len(lines()) == 10 + 10 + 1
    now = 1.5
    logs.event(LOGGER, logging.WARNING, "a peer misbehaved", peer="late")
    assert lines()[-1].endswith("peer=late left_out=990")
