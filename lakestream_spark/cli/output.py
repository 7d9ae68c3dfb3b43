"""How commands print for people: a console, a grid, and text that others wrote.

What always holds: a name or a value is printed as it is, never read as markup or as an emoji; what
a terminal would obey is shown as an escape; nothing is cut out where a terminal is narrow; in a
file or a pipe one row is one line.
"""

from typing import Final, TextIO

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

_WIDEST: Final = 100_000


def console(out: TextIO | None = None) -> Console:
    """The standard output, or `out`."""
    made = Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not made.is_terminal:
        # A file or a pipe has no width.
        made.width = _WIDEST
    return made


def grid(*heads: str) -> Grid:
    """A table without lines, for `add_row` with cells; what is too wide goes on below."""
    rows = Grid(box=None, pad_edge=False, show_header=any(heads))
    for head in heads:
        rows.add_column(visible(head), overflow="fold")
    return rows


def cell(text: str, style: str = "") -> Text:
    """The text on one line, whatever somebody sent."""
    return Text(visible(text), style=style)


def titled(name: str, rest: str) -> Text:
    """A line that begins with a name."""
    return Text.assemble((visible(name), "bold"), visible(rest))


def visible(text: str) -> str:
    """The same text with escapes for what is not printed: a terminal obeys some of it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
