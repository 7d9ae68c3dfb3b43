"""A benchmark's figures as bars, in an SVG file that every browser and GitHub show.

What always holds: the same figures give the same bytes, so that a report changes only where a
figure did.
"""

from collections.abc import Sequence
from html import escape
from typing import Any, Final, NamedTuple

_ROW: Final = 22
_TOP: Final = 34
_LABEL: Final = 380
_BAR: Final = 360
_WIDTH: Final = 860


class Plot(NamedTuple):
    """Which column of a benchmark is drawn, and which columns name a bar."""

    value: str
    unit: str
    labels: tuple[str, ...]


PLOTS: Final = {
    "append": Plot("share_of_plain", "times a plain writer", ("store", "record_bytes")),
    "commit": Plot("p99_ms", "ms, 99th percentile", ("database", "batches", "partitions")),
    "compaction": Plot("mb_per_s", "MB/s", ("who",)),
    "compaction_lag": Plot("p99_s", "s, 99th percentile", ("lag_target_s",)),
    "ingress_fetch": Plot("mb_per_s", "MB/s", ("record_bytes", "codec", "consumers", "broker")),
    "ingress_latency": Plot("ack_p99_ms", "ms, 99th percentile", ("load", "broker")),
    "ingress_produce": Plot(
        "mb_per_s", "MB/s", ("record_bytes", "codec", "idempotent", "producers", "broker")
    ),
    "kernels": Plot("mb_per_core_s", "MB per core and second", ("way", "records", "codec")),
    "read": Plot("share_of_plain", "times a plain reader", ("bytes_from", "partitions")),
    "replay": Plot("mb_per_s", "MB/s", ("what", "partitions", "broker")),
    "replay_first": Plot("ms", "ms", ("what", "files")),
    "table_growth": Plot("cpu_ms", "CPU-ms", ("what", "size")),
    "union_read": Plot("seconds", "s", ("who", "column")),
}


def bars(title: str, rows: Sequence[dict[str, Any]], plot: Plot) -> str:
    """One bar for each row that has the figure."""
    drawn = [row for row in rows if isinstance(row.get(plot.value), int | float)]
    most = max((float(row[plot.value]) for row in drawn), default=0.0) or 1.0
    height = _TOP + _ROW * len(drawn) + 12
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        (
            f'<text x="10" y="20" font-size="14" font-weight="bold">{escape(title)}, '
            f"{escape(plot.unit)}</text>"
        ),
    ]
    for number, row in enumerate(drawn):
        parts += _bar(row, plot, _TOP + _ROW * number, float(row[plot.value]) / most)
    return "\n".join([*parts, "</svg>", ""])


def _bar(row: dict[str, Any], plot: Plot, top: int, share: float) -> list[str]:
    label = ", ".join(str(row[name]) for name in plot.labels if name in row)
    width = max(1, round(_BAR * share))
    colour = "#1f6feb" if "ours" in label else "#7d8794"
    baseline = top + 14
    return [
        f'<text x="{_LABEL - 8}" y="{baseline}" text-anchor="end">{escape(label)}</text>',
        f'<rect x="{_LABEL}" y="{top + 2}" width="{width}" height="{_ROW - 6}" fill="{colour}"/>',
        f'<text x="{_LABEL + width + 6}" y="{baseline}">{float(row[plot.value]):,.3g}</text>',
    ]
