"""Why offsets of a table have no row: the sentence for every hole."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

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
    """Every offset that is missing in the cells that are compared, each with its reason."""
    left = list(joined(run for cell in pinned.cells(partition) for run in cell.missing))
    found: list[Hole] = []
    for ranges, why in _reasons(pinned, partition):
        own = list(within(left, ranges))
        if own:
            found.append(Hole(partition, tuple(own), why))
            left = list(without(left, own))
    return found


def _reasons(pinned: Pinned, partition: int) -> Iterator[tuple[list[Run], str]]:
    for aside in pinned.quarantined:
        if aside.partition == partition:
            reason = f"set aside, because {aside.reason}; the bytes are at {aside.path}"
            yield [Run(aside.first, aside.next)], reason
    for change in sorted(pinned.changes, key=lambda each: -each.sequence_number):
        gone = [Run(*r) for c in change.cells if c.partition == partition for r in c.gone]
        yield gone, _erased(change)
    never = [Run(*r) for c in pinned.committed if c.partition == partition for r in c.holes]
    yield never, "never had a record"


def _erased(change: TableChange) -> str:
    at = datetime.fromtimestamp(change.at_ms / 1000, UTC)
    return (
        f"erased by {change.engine} ({change.operation}) in snapshot {change.snapshot_id} "
        f"at {at:%Y-%m-%d %H:%M:%S} UTC"
    )
