"""Offsets of many files put together: runs where they are dense, plain numbers where they are not.

What always holds: an offset is there as often as it was added; one of a file in no order takes
eight bytes, until those of all files make runs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestream_spark.kafka.arrow.layout import Longs
from lakestream_spark.table.columns import OFFSET, PARTITION
from lakestream_spark.table.runs import Run, runs_of

Runs: TypeAlias = Mapping[int, Sequence[Run]]
"""Offsets by partition."""
Offsets: TypeAlias = Mapping[int, Sequence[Run] | Longs]
"""Of one file by partition: runs, or the numbers themselves."""

_DENSE: Final = 16
"""Rows to a run, from which on runs are smaller."""


def offsets_in(rows: pa.Table) -> Offsets:
    """The offsets of rows in any order."""
    found: dict[int, Sequence[Run] | Longs] = {}
    for partition in pc.unique(rows[PARTITION]).to_pylist():
        own = rows.filter(pc.equal(rows[PARTITION], partition))[OFFSET]
        ordered: Longs = np.sort(own.to_numpy())
        runs = 1 + np.count_nonzero(np.diff(ordered) != 1)
        is_dense = runs * _DENSE <= len(ordered)
        found[partition] = runs_of(pa.array(ordered)) if is_dense else ordered
    return found


class Gathered:
    """The offsets of files, added one by one."""

    def __init__(self) -> None:
        self._runs: dict[int, list[Run]] = defaultdict(list)
        self._scattered: dict[int, list[Longs]] = defaultdict(list)

    def add(self, offsets: Offsets) -> None:
        for partition, own in offsets.items():
            if isinstance(own, np.ndarray):
                self._scattered[partition].append(own)
            else:
                self._runs[partition] += own

    def runs(self) -> Runs:
        """All offsets; one that was added twice is in two runs."""
        found = {partition: list(own) for partition, own in self._runs.items()}
        for partition, arrays in self._scattered.items():
            found.setdefault(partition, []).extend(runs_of(pa.array(np.concatenate(arrays))))
        return found
