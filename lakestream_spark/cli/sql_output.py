"""The rows of an answer as a grid, as CSV or as JSON.

What always holds: JSON is one document, written row by row.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Any, TextIO

from lakestream_spark.cli.output import cell, console, grid
from lakestream_spark.cli.plain_values import plain, shown
from lakestream_spark.sql.lake import Answer


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
    table = grid(*columns)
    for row in rows:
        table.add_row(*(cell(shown(value)) for value in row))
    console(out).print(table, soft_wrap=False)


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
