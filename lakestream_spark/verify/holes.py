"""Why offsets of a table have no row: the sentence for every hole.

What always holds: a hole that nobody erased and that no batch set aside explains is data loss; the
ingress takes no batch with offsets of its own left out, so there is no third reason.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.metadata.cells import Offsets, TableChange
from lakestream_spark.table.runs import Run, joined, size_of, within, without
from lakestream_spark.verify.pinned import Pinned


class Hole(NamedTuple):
    """Offsets of a partition without rows, and why."""

    partition: int
    ranges: Offsets
    why: str

    @property
    def offsets(self) -> int:
        return size_of(Run(*each) for each in self.ranges)


def holes_of(pinned: Pinned, partition: int) -> list[Hole]:
    """Every offset that is missing in the cells that are compared, each with its reason.

    Raises `Corrupt` when one has none.
    """
    left = list(joined(run for cell in pinned.cells(partition) for run in cell.missing))
    found: list[Hole] = []
    for ranges, why in _reasons(pinned, partition):
        own = list(within(left, ranges))
        if own:
            found.append(Hole(partition, tuple(own), why))
            left = list(without(left, own))
    if left:
        raise Corrupt(
            "data loss: offsets were committed without rows, nobody erased them and no batch of "
            "theirs was set aside",
            partition=partition,
            offsets=f"[{left[0].first}, {left[0].next})",
            missing=size_of(left),
        )
    return found


def _reasons(pinned: Pinned, partition: int) -> Iterator[tuple[list[Run], str]]:
    for aside in pinned.quarantined:
        if aside.partition == partition:
            reason = f"set aside, because {aside.reason}; the bytes are at {aside.path}"
            yield [Run(aside.first, aside.next)], reason
    for change in sorted(pinned.changes, key=lambda each: -each.sequence_number):
        gone = [Run(*r) for c in change.cells if c.partition == partition for r in c.gone]
        yield gone, _erased(change)


def _erased(change: TableChange) -> str:
    at = datetime.fromtimestamp(change.at_ms / 1000, UTC)
    return (
        f"erased by {change.engine} ({change.operation}) in snapshot {change.snapshot_id} "
        f"at {at:%Y-%m-%d %H:%M:%S} UTC"
    )
