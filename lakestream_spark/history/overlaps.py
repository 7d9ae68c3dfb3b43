"""Things with bounds, put together where they overlap: only their bounds are trusted."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Bounds(NamedTuple):
    """Offsets from the first to the last, both included."""

    first: int
    last: int


def overlapping(
    things: Iterable[T], bounds_of: Callable[[T], Bounds]
) -> Iterator[tuple[Bounds, tuple[T, ...]]]:
    """Groups of things that share offsets with one another, in the order of their offsets."""
    held: list[T] = []
    around = Bounds(0, -1)
    for thing in sorted(things, key=bounds_of):
        own = bounds_of(thing)
        if held and own.first > around.last:
            yield around, tuple(held)
            held = []
        around = Bounds(around.first, max(around.last, own.last)) if held else own
        held.append(thing)
    if held:
        yield around, tuple(held)
