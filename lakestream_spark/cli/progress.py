"""What a person at a terminal sees of a job: a quiet line per topic, and how long a drain takes.

What always holds: without a terminal, and with logs as JSON, nothing of this happens and every
event is a line of the log; with one, warnings and errors are still lines, above what is alive, and
the last of the other events is shown below it.
"""

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOBase
from typing import Final, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lakestream_spark.core import metrics
from lakestream_spark.settings.tree import LogSettings

_PER_SECOND: Final = 2
_WINDOW_S: Final = 10.0
_BESIDE: Final = 6
"""Lines of the terminal that topics leave free."""
_MB: Final = 1e6
_BAR_WIDTH: Final = 30


def is_watched(log: LogSettings) -> bool:
    """Whether a person looks at the log of this process."""
    return sys.stderr.isatty() and log.format == "text" and os.environ.get("TERM") != "dumb"


@contextmanager
def shown(log: LogSettings, view: Callable[[int], RenderableType]) -> Iterator[None]:
    """Show `view`, which is given the lines it may have, until the block ends; call it after the
    log is configured. Does nothing when nobody watches."""
    if not is_watched(log):
        yield
        return
    console = Console(stderr=True, highlight=False)
    last = _LastEvent()

    def look() -> RenderableType:
        return Group(view(console.height - _BESIDE), Text(last.text, style="dim", overflow="crop"))

    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(_Above(console))
            if log.level == "info":
                handler.addFilter(_is_warning)
    root.addHandler(last)
    try:
        with Live(
            get_renderable=look, console=console, refresh_per_second=_PER_SECOND, transient=True
        ):
            yield
    finally:
        root.removeHandler(last)


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


class _LastEvent(logging.Handler):
    """Remembers the last event that is no line of its own."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        facts = " ".join(f"{key}={value}" for key, value in getattr(record, "facts", {}).items())
        self.text = f"{record.getMessage()}  {facts}"


class _Above(TextIOBase):
    """Lines of the log, above what is alive; long ones are not broken, so they can be copied."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        if text.strip():
            self._console.print(Text(text.rstrip("\n")), soft_wrap=True)
        return len(text)


class _Seen(NamedTuple):
    """What was committed of a topic by then."""

    at_s: float
    rows: int
    bytes: int


class CompactView:
    """A line per topic: what went into its table, how far it is behind, how fast it goes."""

    def __init__(self, *, drains: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._drains = drains
        self._now = now
        self._seen: dict[str, deque[_Seen]] = {}
        self._began: tuple[float, float] | None = None
        """When bytes were first seen to be left, and how many those were at most."""

    def __call__(self, lines: int) -> RenderableType:
        topics = sorted({*_by_topic(metrics.TABLE_ROWS), *_by_topic(metrics.TABLE_LAG_RECORDS)})
        table = Table.grid(padding=(0, 2))
        for number in range(8):
            table.add_column(justify="left" if number == 0 else "right", no_wrap=True)
        for topic in topics[: max(1, lines)]:
            table.add_row(*self._line(topic))
        parts: list[RenderableType] = [table] if topics else [Text("waiting for records")]
        if len(topics) > max(1, lines):
            parts.append(Text(f"and {len(topics) - max(1, lines)} more topics", style="dim"))
        if self._drains:
            parts.append(self._bar())
        return Group(*parts)

    def _line(self, topic: str) -> list[str]:
        rows, size = metrics.TABLE_ROWS.of(topic).value, metrics.TABLE_BYTES.of(topic).value
        behind_s = metrics.TABLE_LAG_SECONDS.of(topic).now()
        behind = metrics.TABLE_LAG_RECORDS.of(topic).now()
        failed = metrics.TABLE_FAILURES.of(topic).value
        rate = self._rate(topic, _Seen(self._now(), rows, size))
        return [
            topic,
            f"{rows:,} rows",
            f"{size / _MB:,.1f} MB",
            f"{metrics.TABLE_FILES.of(topic).value:,} files",
            f"{behind:,.0f} behind, {behind_s:,.1f} s" if behind else "up to date",
            f"{rate.rows:,} rows/s",
            f"{rate.bytes / _MB:,.1f} MB/s",
            f"{failed} failures" if failed else "",
        ]

    def _rate(self, topic: str, seen: _Seen) -> _Seen:
        """Per second, over the last seconds."""
        window = self._seen.setdefault(topic, deque())
        window.append(seen)
        while len(window) > 2 and seen.at_s - window[1].at_s >= _WINDOW_S:
            window.popleft()
        first = window[0]
        took = max(seen.at_s - first.at_s, 1.0)
        return _Seen(
            took, round((seen.rows - first.rows) / took), round((seen.bytes - first.bytes) / took)
        )

    def _bar(self) -> RenderableType:
        """Bytes of the WAL that are left, how fast they become fewer, and until when."""
        left, now = metrics.TABLE_LAG_BYTES.of().now(), self._now()
        began, most = self._began or (now, left)
        if left >= most:
            began, most = now, left
        self._began = (began, most)
        rate = (most - left) / (now - began) if now > began else 0.0
        eta = f"about {left / rate:,.0f} s" if rate else "no rate yet"
        words = Text(f"{left / _MB:,.1f} MB left  {rate / _MB:,.1f} MB/s  {eta}")
        bar = ProgressBar(total=most or 1.0, completed=most - left, width=_BAR_WIDTH)
        row = Table.grid(padding=(0, 2))
        row.add_row(bar, words)
        return row


class MaintainView:
    """A line per topic: what upkeep did for its table, and when last."""

    def __call__(self, lines: int) -> RenderableType:
        ages = _by_topic(metrics.UPKEEP_AGE)
        topics = sorted({*ages, *_by_topic(metrics.UPKEEP_FAILURES)})
        if not topics:
            return Text("waiting for topics")
        table = Table.grid(padding=(0, 2))
        for topic in topics[: max(1, lines)]:
            table.add_row(*self._line(topic, ages.get(topic)))
        return table

    def _line(self, topic: str, age_s: float | None) -> list[str]:
        failed = metrics.UPKEEP_FAILURES.of(topic).value
        merged = metrics.UPKEEP_MERGED_FILES.of(topic).value
        size = metrics.UPKEEP_MERGED_BYTES.of(topic).value
        return [
            topic,
            f"{merged:,} files merged ({size / _MB:,.1f} MB)",
            f"{metrics.UPKEEP_EXPIRED_SNAPSHOTS.of(topic).value:,} snapshots expired",
            f"{metrics.UPKEEP_DELETED_ORPHANS.of(topic).value:,} orphans deleted",
            "not done yet" if age_s is None else f"{age_s:,.0f} s ago",
            f"{failed} failures" if failed else "",
        ]


def _by_topic(family: metrics.TopicFamily) -> Mapping[str, float]:
    return {topic: float(series.now()) for (topic,), series in family.shown()}
