"""Offsets as runs: millions of consecutive rows are one pair of numbers.

A run is [first, next). What always holds for runs made here: they are in order, and an offset that
occurs twice is in two of them.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Run(NamedTuple):
    """Offsets [first, next)."""

    first: int
    next: int


def runs_of(offsets: pa.Array) -> list[Run]:
    """The runs of offsets in any order; an offset that is there twice is in two runs."""
    if len(offsets) == 0:
        return []
    ordered = offsets.take(pc.array_sort_indices(offsets))
    steps = pc.pairwise_diff(ordered, period=1)
    breaks = pc.indices_nonzero(pc.fill_null(pc.not_equal(steps, 1), True))
    firsts = ordered.take(breaks).to_pylist()
    lasts = ordered.take(pc.subtract(breaks.slice(1).cast(pa.int64()), 1)).to_pylist()
    ends = [*lasts, ordered[-1].as_py()]
    return [Run(first, last + 1) for first, last in zip(firsts, ends, strict=True)]


def first_repeated(runs: Iterable[Run]) -> int | None:
    """The smallest offset that is in two of the runs."""
    end = -1
    for run in sorted(runs):
        if run.first < end:
            return run.first
        end = max(end, run.next)
    return None


def first_outside(runs: Iterable[Run], allowed: Iterable[Run]) -> int | None:
    """The smallest offset of the runs that is in none of those allowed."""
    ranges = joined(allowed)
    room = next(ranges, None)
    for run in joined(runs):
        while room is not None and room.next <= run.first:
            room = next(ranges, None)
        if room is None or run.first < room.first:
            return run.first
        if run.next > room.next:
            return room.next
    return None


def joined(runs: Iterable[Run]) -> Iterator[Run]:
    """The same offsets in as few runs as possible, in order."""
    held: Run | None = None
    for run in sorted(runs):
        if held is None:
            held = run
        elif run.first <= held.next:
            held = Run(held.first, max(held.next, run.next))
        else:
            yield held
            held = run
    if held is not None:
        yield held


def without(runs: Iterable[Run], taken: Iterable[Run]) -> Iterator[Run]:
    """The offsets of the runs that are in none of those taken, in order."""
    away = list(joined(taken))
    at = 0
    for run in joined(runs):
        first = run.first
        while at < len(away) and away[at].next <= first:
            at += 1
        within = at
        while within < len(away) and away[within].first < run.next:
            if away[within].first > first:
                yield Run(first, away[within].first)
            first = max(first, away[within].next)
            within += 1
        if first < run.next:
            yield Run(first, run.next)


def size_of(runs: Iterable[Run]) -> int:
    """How many offsets there are in runs that lie apart."""
    return sum(run.next - run.first for run in runs)


def within(runs: Iterable[Run], place: Iterable[Run]) -> Iterator[Run]:
    """The offsets of the runs that are in the place as well, in order."""
    own, room = list(joined(runs)), list(joined(place))
    one = other = 0
    while one < len(own) and other < len(room):
        first = max(own[one].first, room[other].first)
        after = min(own[one].next, room[other].next)
        if first < after:
            yield Run(first, after)
        if own[one].next < room[other].next:
            one += 1
        else:
            other += 1
