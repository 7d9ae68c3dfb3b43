"""The story on one quiet screen, or as plain lines where nobody sits at a terminal.

What always holds: what was told stays; below it, at a terminal only, what happens now and a line
per topic are alive. Plain lines tell the same story, and the topics from time to time.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from lakestream_spark.cli.demo.story import Chapter
from lakestream_spark.cli.demo.watch import TopicNow

TopicsNow = Callable[[], Mapping[str, TopicNow]]
_NAME: Final = 12
_TIME: Final = 6
_INDENT: Final = 2
_DETAIL: Final = 4
_PER_SECOND: Final = 4
_LINES_EVERY_S: Final = 10.0
_HEADS: Final = ("topic", "records", "per s", "in the table", "behind", "snapshots")


class Screen:
    """Everything the demo shows, on a console of rich's."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.topics: TopicsNow = dict
        """What is asked for the lines of the topics."""
        self._spinner = Spinner("dots", style="green")
        self._hint = ""
        self._shown_s = 0.0
        self.is_alive = console.is_terminal and os.environ.get("TERM") != "dumb"

    def showing(self) -> AbstractContextManager[object]:
        """What is alive is shown until the block ends."""
        if not self.is_alive:
            return nullcontext()
        return Live(
            get_renderable=self._look,
            console=self._console,
            refresh_per_second=_PER_SECOND,
            transient=True,
        )

    def title(self, text: str) -> None:
        self._console.print(Text(text, style="bold"), soft_wrap=not self.is_alive)
        self._console.print()

    def doing(self, text: str, hint: str = "") -> None:
        """What happens now, and what can be done about it."""
        self._spinner.update(text=Text(f" {text}"))
        self._hint = hint

    def tell(self, chapter: Chapter) -> None:
        self._line("✓", "green", chapter.name, chapter.text, f"{chapter.at_s:.0f} s")
        self._lines(f"{'':{_DETAIL}}{line}".rstrip() for line in chapter.details)

    def trouble(self, text: str) -> None:
        self._line("!", "yellow", "trouble", text, "")

    def advice(self, name: str, text: str, lines: Iterable[str] = ()) -> None:
        """Something to try, with what to type."""
        self._line("", "", name, text, "")
        self._lines(lines)

    def blank(self) -> None:
        self._console.print()

    def close(self, text: str) -> None:
        """The last state of the topics and the last line."""
        if self.is_alive:
            self._console.print(Group(Text(""), _grid(self.topics()), Text("")))
        else:
            self._plain_topics()
        self._line("■", "bold", "stopped", text, "")

    def beat(self, at_s: float) -> None:
        """Call it often while nothing is told: plain lines show the topics from time to time."""
        if not self.is_alive and at_s - self._shown_s >= _LINES_EVERY_S:
            self._shown_s = at_s
            self._plain_topics()

    def _line(self, mark: str, style: str, name: str, text: str, time: str) -> None:
        if not self.is_alive:
            after = f"  ({time})" if time else ""
            self._console.print(Text(f"{name:<{_NAME}}  {text}{after}"), soft_wrap=True)
            return
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=1)
        grid.add_column(width=_NAME)
        grid.add_column(ratio=1)
        grid.add_column(width=_TIME, justify="right", no_wrap=True)
        parts = (Text(mark, style), Text(name, "bold"), Text(text), Text(time, "dim"))
        grid.add_row(*parts)
        self._console.print(grid)

    def _lines(self, lines: Iterable[str]) -> None:
        """Not broken, so that they can be copied."""
        for line in lines:
            self._console.print(Text(line, "cyan"), soft_wrap=True)

    def _plain_topics(self) -> None:
        for each in self.topics().values():
            text = (
                f"{each.records:,} records, {each.per_second:.1f}/s, {each.in_table:,} in the "
                f"table, {each.behind:,} behind ({each.behind_s:.1f} s)"
            )
            if each.snapshots is not None:
                text += f", {each.snapshots} snapshots"
            self._console.print(Text(f"{each.name:<{_NAME}}  {text}"), soft_wrap=True)

    def _look(self) -> RenderableType:
        parts: list[RenderableType] = [Text("")]
        topics = self.topics()
        if topics:
            parts += [_grid(topics), Text("")]
        parts.append(self._spinner)
        if self._hint:
            parts.append(Text(f"  {self._hint}", "dim"))
        return Group(*parts)


def _grid(topics: Mapping[str, TopicNow]) -> RenderableType:
    grid = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, head in enumerate(_HEADS):
        grid.add_column(head, justify="left" if number == 0 else "right", no_wrap=True)
    for each in topics.values():
        behind = f"{each.behind:,}, {each.behind_s:.1f} s" if each.behind else "nothing"
        grid.add_row(
            Text(each.name, "bold"),
            f"{each.records:,}",
            f"{each.per_second:.1f}",
            f"{each.in_table:,}",
            behind,
            "…" if each.snapshots is None else f"{each.snapshots}",
        )
    return Padding(grid, (0, 0, 0, _INDENT))
