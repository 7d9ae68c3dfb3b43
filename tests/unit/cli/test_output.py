"""Grids on terminals: nothing is cut, however narrow they are."""

import re
from collections.abc import Sequence
from io import StringIO

import pyarrow as pa
import pytest

from lakestream_spark.cli.output import cell, console, grid
from lakestream_spark.cli.sql_output import Form, write
from lakestream_spark.sql.lake import Answer

LONG = "file:///a/path/that/has/no/blank/to/break/at/and/is/wider/than/a/narrow/terminal/is"
NAMES = "__partition", "__offset", "__timestamp", "__key", "__value", "__headers"
ROW = "0", "1", "2026-11-18 03:36:41.123000", "c-0007", '{"page": "/tea", "n": 12}', "[]"


class Screen(StringIO):
    """A terminal so wide."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
        super().__init__()
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        shown = re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue())
        return [line.rstrip() for line in shown.splitlines()]


def asked(screen: Screen, *rows: Sequence[str]) -> list[str]:
    """The lines of an answer that has such rows."""
    names = NAMES[: len(rows[0])]
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    found = Answer(names, iter([pa.RecordBatch.from_pydict(columns)]))
    write(found, Form.GRID, None, screen)
    return screen.lines()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_long_value_goes_on_in_the_next_line(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    screen = Screen(monkeypatch, width)
    rows = grid("", "")
    rows.add_row(cell("sick"), cell(LONG))
    console(screen).print(rows)
    assert LONG in "".join(line.removeprefix("sick").strip() for line in screen.lines())


def test_an_answer_is_a_grid_where_names_and_words_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = asked(Screen(monkeypatch, 80), ROW, ROW)
    assert lines[0].split() == list(NAMES)
    assert "03:36:41.123000" in "\n".join(lines)


def test_a_row_is_some_lines_where_a_grid_would_part_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = [f"{name:<11}  {value}" for name, value in zip(NAMES, ROW, strict=True)]
    assert asked(Screen(monkeypatch, 60), ROW, ROW) == [*block, "", *block]


@pytest.mark.parametrize("width", [30, 60, 80])
def test_no_value_is_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = asked(Screen(monkeypatch, width), [LONG])
    assert "".join(line.strip() for line in shown).endswith(LONG)
    assert all(len(line) <= width for line in shown)
