"""The rows of an answer as a grid, as CSV or as JSON.

What always holds: JSON is one document, written row by row; on a terminal that is too narrow for a
grid, a row is some lines, and no value is cut.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final, TextIO

from rich.cells import cell_len
from rich.table import Table as Grid
from rich.text import Text

from lakestream_spark.cli.output import cell, console, grid
from lakestream_spark.cli.plain_values import plain, shown
from lakestream_spark.sql.lake import Answer

_BETWEEN: Final = 2
_WORD: Final = 24
"""Longer ones may be parted."""


class Form(Enum):
    GRID = auto()
    CSV = auto()
    JSON = auto()


def write(found: Answer, form: Form, limit: int | None, out: TextIO) -> bool:
    """Whether rows were left out because of the limit."""
    rows = _Limited(found, limit)
    {Form.GRID: _write_grid, Form.CSV: _write_csv, Form.JSON: _write_json}[form](
        found.columns, rows, out
    )
    return rows.left_out


class _Limited:
    """So many rows, each a list of values."""

    def __init__(self, found: Answer, limit: int | None) -> None:
        self._found = found
        self._limit = limit
        self.left_out = False

    def __iter__(self) -> Iterator[list[Any]]:
        printed = 0
        for batch in self._found.batches:
            columns = [column.to_pylist() for column in batch.columns]
            for row in zip(*columns, strict=True):
                if printed == self._limit:
                    self.left_out = True
                    return
                yield list(row)
                printed += 1


def _write_grid(columns: Sequence[str], rows: _Limited, out: TextIO) -> None:
    screen = console(out)
    cells = [[cell(shown(value)) for value in row] for row in rows]
    if _fits(columns, cells, screen.width):
        table = grid(*columns)
        for row in cells:
            table.add_row(*row)
        screen.print(table, soft_wrap=False)
        return
    for number, row in enumerate(cells):
        if number:
            screen.print()
        screen.print(_block(columns, row), soft_wrap=False)


def _block(columns: Sequence[str], row: Sequence[Text]) -> Grid:
    """A row as lines, each a name and its value."""
    lines = grid("", "")
    for name, value in zip(columns, row, strict=True):
        lines.add_row(cell(name, "bold"), value)
    return lines


def _fits(columns: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> bool:
    """Whether names stay in one piece side by side, and words as well unless they are long."""
    found = [
        max([cell_len(name), *(min(_longest_word(row[at]), _WORD) for row in cells)])
        for at, name in enumerate(columns)
    ]
    return sum(found) + _BETWEEN * (len(found) - 1) <= width


def _longest_word(text: Text) -> int:
    return max(map(cell_len, text.plain.split()), default=0)


def _write_csv(columns: Sequence[str], rows: _Limited, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if value is None else shown(value) for value in row])


def _write_json(columns: Sequence[str], rows: _Limited, out: TextIO) -> None:
    names = _distinct(columns)
    out.write(f'{{"columns": {json.dumps(names, ensure_ascii=False)}, "rows": [')
    between = "\n"
    for row in rows:
        named = {name: plain(value) for name, value in zip(names, row, strict=True)}
        out.write(between + json.dumps(named, ensure_ascii=False))
        between = ",\n"
    out.write(f'\n], "left_out": {json.dumps(rows.left_out)}}}\n')


def _distinct(names: Sequence[str]) -> list[str]:
    """Joins give names twice; an object cannot."""
    found: list[str] = []
    for name in names:
        count = 0
        own = name
        while own in found:
            count += 1
            own = f"{name}_{count}"
        found.append(own)
    return found
