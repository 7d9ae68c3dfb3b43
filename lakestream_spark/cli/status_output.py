"""How `lakestream status` looks: a grid where it fits, else some lines for each topic.

What always holds: no number is left out and no name is cut, however narrow the terminal is; in a
file or a pipe a topic is one line.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from lakestream_spark.cli.output import cell, grid, visible
from lakestream_spark.cli.topic_status import TableSize, TopicStatus

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STYLES: Final = {"well": "green", "late": "yellow", "red": "bold red"}
_INDENT: Final = "  "
_UNBROKEN: Final = "\xa0"
_ANY_WIDTH: Final = 100_000
_NARROWEST: Final = 20


def show(found: Sequence[TopicStatus], out: Console) -> None:
    rows = _grid(found)
    if Measurement.get(out, out.options.update_width(_ANY_WIDTH), rows).maximum <= out.width:
        out.print(rows)
        return
    for each in found:
        out.print(_headline(each))
        for line in _lines(each, out.width):
            out.print(cell(line))


def _grid(found: Sequence[TopicStatus]) -> Grid:
    numbers = [_numbers(each) for each in found]
    names = list(dict.fromkeys(name for own in numbers for name in own))
    rows = grid("topic", "state", "lag", *names)
    for each, own in zip(found, numbers, strict=True):
        state = cell(each.state, _STYLES[each.state])
        rows.add_row(cell(each.topic), state, _lag(each), *(own.get(name, "0") for name in names))
    return rows


def _headline(status: TopicStatus) -> Text:
    state = (status.state, _STYLES[status.state])
    return Text.assemble((visible(status.topic), "bold"), "  ", state, f"  {_lag(status)}")


def _lines(status: TopicStatus, width: int) -> list[str]:
    """Every number with its name; the two are never parted."""
    parts = [f"{name} {number}" for name, number in _numbers(status).items()]
    text = ", ".join(part.replace(" ", _UNBROKEN) for part in parts)
    lines = wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_UNBROKEN, " ") for line in lines]


def _lag(status: TopicStatus) -> str:
    return f"{status.lag_records} records, {status.lag_seconds:.0f} s"


def _numbers(status: TopicStatus) -> Mapping[str, str]:
    return {
        "high watermark (sum)": str(status.high_watermark),
        "table end (sum)": str(status.table_end),
        "WAL": _bytes(status.wal_bytes),
        **_table(status.table),
        # Rare, and a column that most terminals have no room for.
        **({"set aside": str(status.quarantined)} if status.quarantined else {}),
    }


def _table(own: TableSize | None) -> Mapping[str, str]:
    names = "table", "files (median)", "older", "last commit (UTC)"
    if own is None:
        return dict.fromkeys(names, "unknown")
    files = f"{own.files} ({_bytes(own.median_bytes)})"
    commit = "never" if own.last_commit_ms is None else _time(own.last_commit_ms)
    numbers = _bytes(own.bytes), files, _bytes(own.retained_bytes), commit
    return dict(zip(names, numbers, strict=True))


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _bytes(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"
