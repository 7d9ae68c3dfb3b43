"""Neighbouring ranges of an object read as one run, and cut out of it again.

Merged here and not by obstore, which panics when a merged range begins beyond the object's end.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_GAP = 1024 * 1024
"""Reading this many bytes for nothing costs less than another request."""


class Run(NamedTuple):
    """Bytes [start, end) of an object, read by one request."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangePlan:
    """The runs that hold all of the ranges: in order, more than the gap apart, none empty."""

    starts: Sequence[int]
    lengths: Sequence[int]
    runs: tuple[Run, ...]

    def cut(self, found: Sequence[memoryview]) -> list[memoryview]:
        """The bytes of each range, in the order asked, out of the bytes of the runs."""
        run_starts = [run.start for run in self.runs]
        ranges = []
        for start, length in zip(self.starts, self.lengths, strict=True):
            if length == 0:
                ranges.append(memoryview(b""))
                continue
            at = bisect_right(run_starts, start) - 1
            first = start - run_starts[at]
            ranges.append(found[at][first : first + length])
        return ranges


def plan_ranges(
    starts: Sequence[int], lengths: Sequence[int], *, max_gap: int = MAX_GAP
) -> RangePlan:
    """The fewest runs that hold the ranges without reading more than `max_gap` between two."""
    runs: list[Run] = []
    for start, length in sorted(zip(starts, lengths, strict=True)):
        if length == 0:
            continue
        if runs and start - runs[-1].end <= max_gap:
            runs[-1] = Run(runs[-1].start, max(runs[-1].end, start + length))
        else:
            runs.append(Run(start, start + length))
    return RangePlan(starts=starts, lengths=lengths, runs=tuple(runs))
