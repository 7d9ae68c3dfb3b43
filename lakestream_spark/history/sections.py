"""Sections: row groups that are read together, cut into blocks of a few megabytes.

A section of one row group in offset order is decoded from front to back by cursors that stay open,
so that a reader who goes on costs each row once. Other engines may leave rows in any order and
files that overlap: such a section is read window by window of offsets, each of them sorted. Where
its rows lie is found out once; a row group without rows in a window is not opened for it.

What always holds: a block has every row of its offsets [first, next) that the plan knows.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from lakestream_spark.history.groups import Group, GroupSpan, LiveRows, live_rows
from lakestream_spark.history.parquet import GroupCursor
from lakestream_spark.history.windows import ROW_BYTES, RowsByWindow
from lakestream_spark.kafka.arrow.layout import Longs
from lakestream_spark.table.columns import ARROW_SCHEMA

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""Before compression: enough for the kernels to be quick, little enough for a first record."""
_WINDOW_BYTES: Final = 8 * BLOCK_BYTES
_MIN_BLOCK_ROWS: Final = 64
_MAX_BLOCK_ROWS: Final = 64 * 1024
_MAX_CURSORS: Final = 3
_MAX_AT_ONCE: Final = 4
"""So many row groups of a window are decoded at once: most of it is waiting for a store."""


class RowBlock(NamedTuple):
    """Rows of the offsets [first, next), in any order."""

    rows: pa.Table
    first: int
    next: int


class Section(Protocol):
    """Offsets [first, last] of a partition; reading is safe from several threads."""

    @property
    def last(self) -> int: ...

    def find(self, offset: int) -> int | None:
        """The block to read for an offset; None when no row of the section is at or after it."""

    def border(self, block: int) -> int:
        """Where the block after this one begins."""

    def load(self, block: int) -> RowBlock: ...


class Room(Protocol):
    """Memory for windows of one section that were decoded along with another; it may lose them."""

    @property
    def size(self) -> int:
        """So many bytes, and as many for knowing where rows lie."""

    def put(self, window: int, rows: RowBlock) -> None: ...

    def take(self, window: int) -> RowBlock | None: ...


_Pieces: TypeAlias = dict[int, list[pa.Table]]
"""Rows by window."""


def open_section(
    io: FileIO, span: GroupSpan, partition: int, deleted: Mapping[str, Longs], room: Room
) -> Section:
    """The way to read these row groups that their own rows allow."""
    if len(span.groups) > 1:
        return MixedSection(io, span, partition, deleted, room)
    live = live_rows(io, span.groups[0], partition, deleted)
    if np.any(live.offsets[1:] <= live.offsets[:-1]):
        return MixedSection(io, span, partition, deleted, room)
    return OrderedSection(io, span.groups[0], live)


class OrderedSection:
    """One row group whose rows are in offset order."""

    def __init__(self, io: FileIO, group: Group, live: LiveRows) -> None:
        self._io = io
        self._group = group
        self._rows = live.rows
        self._offsets = _compact(live.offsets)
        self._block_rows = _rows_in(BLOCK_BYTES, group.raw_bytes, group.rows)
        self._lock = threading.Lock()
        self._cursors: list[GroupCursor] = []

    @property
    def last(self) -> int:
        return self._group.offsets.last

    def find(self, offset: int) -> int | None:
        at = bisect_left(self._offsets, offset)
        if at == len(self._offsets):
            return None
        row = at if self._rows is None else int(self._rows[at])
        return row // self._block_rows

    def load(self, block: int) -> RowBlock:
        begin = block * self._block_rows
        end = min(begin + self._block_rows, self._group.rows)
        with self._lock:
            table = self._take(begin, end)
        first, after = self._live(begin), self._live(end)
        if self._rows is not None:
            table = table.take(self._rows[first:after] - begin)
        return RowBlock(table, int(self._offsets[first]), self.border(block))

    def border(self, block: int) -> int:
        after = self._live(min((block + 1) * self._block_rows, self._group.rows))
        following = after < len(self._offsets)
        return int(self._offsets[after]) if following else self._group.offsets.last + 1

    def _live(self, row: int) -> int:
        """How many rows before this one belong to the stream."""
        return row if self._rows is None else int(np.searchsorted(self._rows, row))

    def _take(self, begin: int, end: int) -> pa.Table:
        """By the cursor that is nearest before these rows, or a new one."""
        behind = [cursor for cursor in self._cursors if cursor.position <= begin]
        if behind:
            cursor = max(behind, key=lambda each: each.position)
            self._cursors.remove(cursor)
        else:
            cursor = GroupCursor(self._io, self._group.footer, self._group.number, self._block_rows)
        cursor.skip_to(begin)
        table = cursor.take(end - begin)
        if cursor.position < self._group.rows:
            self._cursors = [*self._cursors[1 - _MAX_CURSORS :], cursor]
        return table


class MixedSection:
    """Row groups that overlap, or one whose rows are in no order.

    A row group has to be decoded for whatever is wanted of it, so windows after the one that is
    wanted are decoded along with it, as many as there is room for.
    """

    def __init__(
        self, io: FileIO, span: GroupSpan, partition: int, deleted: Mapping[str, Longs], room: Room
    ) -> None:
        self._io = io
        self._span = span
        self._partition = partition
        self._deleted = deleted
        size = sum(group.raw_bytes for group in span.groups)
        self._window = max(1, _WINDOW_BYTES * (span.last - span.first + 1) // max(1, size))
        self._windows = 1 + room.size // _WINDOW_BYTES
        self._lock = threading.Lock()
        self._room = room
        self._by_window: dict[int, RowsByWindow] = {}
        largest = max(group.stored_bytes for group in span.groups)
        self._at_once = max(1, min(_MAX_AT_ONCE, room.size // max(1, largest)))

    @property
    def last(self) -> int:
        return self._span.last

    def find(self, offset: int) -> int | None:
        if offset > self._span.last:
            return None
        return max(0, offset - self._span.first) // self._window

    def load(self, block: int) -> RowBlock:
        # One at a time: who wants the next window finds it decoded.
        with self._lock:
            return self._room.take(block) or self._decoded(block)

    def border(self, block: int) -> int:
        return min(self._span.first + (block + 1) * self._window, self._span.last + 1)

    def _decoded(self, block: int) -> RowBlock:
        last = (self._span.last - self._span.first) // self._window
        windows = range(block, min(block + self._windows, last + 1))
        first, after = self._first(block), self.border(windows[-1])
        own = [
            number
            for number, group in enumerate(self._span.groups)
            if group.offsets.first < after and group.offsets.last >= first
        ]
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="window") as pool:
            found = list(pool.map(lambda number: self._rows_of(number, windows), own))
        wanted, *others = (self._joined(window, found) for window in windows)
        for window, rows in zip(windows[1:], others, strict=True):
            self._room.put(window, rows)
        return wanted

    def _first(self, block: int) -> int:
        return self._span.first + block * self._window

    def _joined(self, window: int, found: Sequence[_Pieces]) -> RowBlock:
        pieces = [piece for own in found for piece in own.get(window, ())]
        rows = pa.concat_tables(pieces) if pieces else ARROW_SCHEMA.empty_table()
        return RowBlock(rows, self._first(window), self.border(window))

    def _rows_of(self, number: int, windows: range) -> _Pieces:
        """The rows of a row group that are in the windows."""
        group = self._span.groups[number]
        places = self._windows_of(number)
        wanted = {window: rows for window in windows if len(rows := places.rows_in(window))}
        if not wanted:
            return {}
        size = _rows_in(BLOCK_BYTES, group.raw_bytes, group.rows)
        cursor = GroupCursor(self._io, group.footer, group.number, size)
        pieces: _Pieces = defaultdict(list)
        for begin in range(0, max(int(rows[-1]) for rows in wanted.values()) + 1, size):
            table = cursor.take(min(size, group.rows - begin))
            for window, rows in wanted.items():
                low, high = np.searchsorted(rows, [begin, begin + size])
                if low < high:
                    # Casted: engines name the fields inside of lists in several ways.
                    own = table.take(rows[low:high] - begin).cast(ARROW_SCHEMA)
                    pieces[window].append(own)
        cursor.close()
        return pieces

    def _windows_of(self, number: int) -> RowsByWindow:
        known = self._by_window.get(number)
        if known is None:
            group = self._span.groups[number]
            live = live_rows(self._io, group, self._partition, self._deleted)
            known = RowsByWindow.of(live, self._span.first, self._window)
            if index_bytes(self._span) <= self._room.size:
                # Two threads that come here at once find the same.
                self._by_window[number] = known
        return known


def index_bytes(span: GroupSpan) -> int:
    """What it takes to know the place of every row."""
    return ROW_BYTES * sum(group.rows for group in span.groups)


def _rows_in(size: int, raw_bytes: int, rows: int) -> int:
    """How many rows of a row group have about this size."""
    count = size * rows // max(1, raw_bytes)
    return max(_MIN_BLOCK_ROWS, min(count, _MAX_BLOCK_ROWS))


def _compact(offsets: Longs) -> Sequence[int] | Longs:
    """Offsets in order; those without a hole are kept as two numbers."""
    if len(offsets) and int(offsets[-1]) - int(offsets[0]) + 1 == len(offsets):
        return range(int(offsets[0]), int(offsets[-1]) + 1)
    return offsets
