"""Which files to merge: a window of neighbouring small files per partition.

What always holds: a window is a run of neighbours in offset order that no other file of the
partition overlaps, so what becomes of it overlaps nothing; its largest file is not larger than the
others together, so that a row is rewritten a few times in its life and not once an hour. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.delta_files import MirroredFile
from lakestream_spark.table.upkeep.policy import MergePolicy


class SmallFile(NamedTuple):
    """A file with the offsets [first, next) of a partition."""

    first: int
    next: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Neighbouring files of a partition that become one, or few."""

    partition: int
    first: int
    next: int
    files: int
    size: int


def windows(
    files: Iterable[MirroredFile], ends: Mapping[int, int], policy: MergePolicy, *, is_seldom: bool
) -> list[Window]:
    """At most one per partition, those with most files first, within what one rewrite may read.

    `is_seldom` says that it is time for few files too.
    """
    found = [
        window
        for partition, own in sorted(_by_partition(files, ends).items())
        if (window := _window(partition, own, policy, is_seldom=is_seldom)) is not None
    ]
    found.sort(key=lambda window: -window.files)
    chosen: list[Window] = []
    left = policy.max_bytes
    for window in found:
        if chosen and window.size > left:
            break
        chosen.append(window)
        left -= window.size
    return chosen


def condition(chosen: Sequence[Window]) -> str:
    """The windows as a condition on rows that holds for whole files."""
    return " OR ".join(
        f"({PARTITION} = {window.partition} "
        f"AND {OFFSET} >= {window.first} AND {OFFSET} < {window.next})"
        for window in chosen
    )


def _by_partition(
    files: Iterable[MirroredFile], ends: Mapping[int, int]
) -> dict[int, list[SmallFile]]:
    """The files with known offsets below the ends, in offset order; a partition with others is
    left alone."""
    found: dict[int, list[SmallFile]] = defaultdict(list)
    unknown: set[int] = set()
    for file in files:
        if file.offsets is None or file.offsets[1] >= ends.get(file.partition, 0):
            unknown.add(file.partition)
            continue
        first, last = file.offsets
        found[file.partition].append(SmallFile(first, last + 1, file.size))
    return {partition: sorted(own) for partition, own in found.items() if partition not in unknown}


def _window(
    partition: int, files: Sequence[SmallFile], policy: MergePolicy, *, is_seldom: bool
) -> Window | None:
    """The first run of the partition that is worth a rewrite."""
    for run in _runs(files, policy):
        own = _balanced(run)
        size = sum(file.size for file in own)
        enough = 2 if is_seldom or size >= policy.target_bytes else policy.min_files
        if len(own) >= enough:
            return Window(
                partition=partition,
                first=own[0].first,
                next=max(file.next for file in own),
                files=len(own),
                size=size,
            )
    return None


def _runs(files: Sequence[SmallFile], policy: MergePolicy) -> list[list[SmallFile]]:
    """Neighbouring small files, as much as makes two good ones; overlapping files stay together."""
    runs: list[list[SmallFile]] = [[]]
    for group in _groups(files):
        is_small = len(group) > 1 or group[0].size < policy.target_bytes * 3 // 4
        size = sum(file.size for file in runs[-1])
        if not is_small or size >= 2 * policy.target_bytes:
            runs.append([])
        if is_small:
            runs[-1] += group
    return runs


def _groups(files: Sequence[SmallFile]) -> list[list[SmallFile]]:
    """Files that overlap, together: one of them alone cannot be told by its offsets."""
    groups: list[list[SmallFile]] = []
    end = -1
    for file in files:
        if file.first < end:
            groups[-1].append(file)
        else:
            groups.append([file])
        end = max(end, file.next)
    return groups


def _balanced(run: Sequence[SmallFile]) -> Sequence[SmallFile]:
    """The end of the run in which no file is larger than all others together.

    Files that overlap are never parted, whatever their sizes.
    """
    groups = _groups(run)
    while groups:
        sizes = [sum(file.size for file in group) for group in groups]
        largest = max(range(len(groups)), key=sizes.__getitem__)
        if len(groups[largest]) > 1 or 2 * sizes[largest] <= sum(sizes):
            break
        groups = groups[largest + 1 :]
    return [file for group in groups for file in group]
