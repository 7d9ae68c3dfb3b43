"""Row groups of data files as one partition of a stream sees them.

What always holds: deleted rows and rows of other partitions are left out before anything else is
done; whether rows are in offset order is seen from the offsets themselves, never assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from pyiceberg.io import FileIO

from lakestream_spark.history.overlaps import Bounds, overlapping
from lakestream_spark.history.parquet import Footer, Footers, read_columns
from lakestream_spark.history.plan import FileSpan
from lakestream_spark.kafka.arrow.layout import Longs
from lakestream_spark.table.columns import OFFSET, PARTITION


class Group(NamedTuple):
    """One row group of a file, with the bounds of its offsets."""

    footer: Footer
    number: int
    position: int
    """Of its first row in the file."""
    offsets: Bounds

    @property
    def rows(self) -> int:
        return self.footer.rows(self.number)

    @property
    def raw_bytes(self) -> int:
        """Of its columns, before compression."""
        return int(self.footer.metadata.row_group(self.number).total_byte_size)

    @property
    def stored_bytes(self) -> int:
        row_group = self.footer.metadata.row_group(self.number)
        columns = range(row_group.num_columns)
        return sum(row_group.column(column).total_compressed_size for column in columns)


class GroupSpan(NamedTuple):
    """Row groups whose offsets overlap; nearly always a single one."""

    first: int
    last: int
    groups: tuple[Group, ...]


class LiveRows(NamedTuple):
    """The offsets of the rows that belong to the stream, in the file's order."""

    offsets: Longs
    rows: Longs | None
    """Where they are in the row group; None when they are all there is."""


def groups_of(io: FileIO, footers: Footers, path: str) -> Iterator[Group]:
    """The row groups of a file that have rows."""
    footer = footers.of(io, path)
    position = 0
    for number in range(footer.metadata.num_row_groups):
        rows = footer.rows(number)
        if rows:
            offsets = footer.bounds(OFFSET, number) or _seen_bounds(io, footer, number)
            yield Group(footer, number, position, Bounds(*offsets))
        position += rows


def spans_of(io: FileIO, footers: Footers, span: FileSpan) -> Sequence[GroupSpan]:
    """The row groups of files that are read together, in the order of their offsets."""
    groups = [group for file in span.files for group in groups_of(io, footers, file.path)]
    return [GroupSpan(*around, own) for around, own in overlapping(groups, attrgetter("offsets"))]


def live_rows(io: FileIO, group: Group, partition: int, deleted: Mapping[str, Longs]) -> LiveRows:
    """The rows of one partition that are not deleted."""
    one_partition = group.footer.bounds(PARTITION, group.number) == (partition, partition)
    columns = [OFFSET] if one_partition else [OFFSET, PARTITION]
    found = read_columns(io, group.footer, group.number, columns)
    offsets: Longs = found[OFFSET].to_numpy()
    gone = deleted.get(group.footer.path)
    if one_partition and gone is None:
        return LiveRows(offsets, None)
    live = np.ones(len(offsets), np.bool_)
    if not one_partition:
        live &= found[PARTITION].to_numpy() == partition
    if gone is not None:
        first, after = np.searchsorted(gone, [group.position, group.position + len(offsets)])
        live[gone[first:after] - group.position] = False
    rows: Longs = np.flatnonzero(live)
    return LiveRows(offsets[rows], rows)


def _seen_bounds(io: FileIO, footer: Footer, number: int) -> tuple[int, int]:
    """Of a row group without statistics."""
    offsets = read_columns(io, footer, number, [OFFSET])[OFFSET].to_numpy()
    return int(offsets.min()), int(offsets.max())
