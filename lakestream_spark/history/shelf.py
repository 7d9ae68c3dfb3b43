"""Sections that are open, found by the offset that somebody wants; the least used are let go.

What always holds: sections and the windows that they decoded ahead share one bound of memory.
"""

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

from lakestream_spark.history.groups import GroupSpan, spans_of
from lakestream_spark.history.parquet import Footers
from lakestream_spark.history.plan import FileSpan, Plan
from lakestream_spark.history.sections import RowBlock, Section, index_bytes, open_section
from lakestream_spark.history.tally import Counted, Tally
from lakestream_spark.table.places import canonical

_MAX_SPLIT: Final = 1024
_LOCAL_BYTES: Final = 4 * 1024 * 1024
"""An open local file holds a few pages; of others whole row groups are in memory."""

_SECTION_SHARE: Final = 2
"""Of the memory, at most, is for windows of one section, and for knowing where its rows lie."""

V = TypeVar("V")


class Recent(Generic[V]):
    """The values that were used last, up to a weight; two threads may make the same one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: Hashable, make: Callable[[], V], weight: int = 1) -> V:
        with self._lock:
            known = self._held.get(key)
            if known is not None:
                self._held.move_to_end(key)
                return known[0]
        made = make()
        with self._lock:
            known = self._held.setdefault(key, (made, weight))
            if known[0] is made:
                self._weight += weight
            self._trim()
            return known[0]

    def put(self, key: Hashable, value: V, weight: int, owner: Hashable) -> None:
        """What goes before its owner does, which is used by this."""
        self.pop(key)
        with self._lock:
            self._held[key] = (value, weight)
            self._weight += weight
            if owner in self._held:
                self._held.move_to_end(owner)
            self._trim()

    def pop(self, key: Hashable) -> V | None:
        with self._lock:
            held = self._held.pop(key, None)
            if held is None:
                return None
            self._weight -= held[1]
            return held[0]

    def _trim(self) -> None:
        """The lock is held."""
        while self._weight > self._limit and len(self._held) > 1:
            self._weight -= self._held.popitem(last=False)[1][1]


class _Room:
    """The room of one section among those that all of them share."""

    def __init__(self, held: Recent[Section | RowBlock], size: int, key: Hashable) -> None:
        self._held = held
        self._key = key
        self.size: Final = size

    def put(self, window: int, rows: RowBlock) -> None:
        self._held.put((self._key, window), rows, rows.rows.nbytes, self._key)

    def take(self, window: int) -> RowBlock | None:
        found = self._held.pop((self._key, window))
        assert found is None or isinstance(found, RowBlock)
        return found


class Found(NamedTuple):
    """An open section, and what tells its blocks from those of all others."""

    section: Section
    key: Hashable


class Shelf:
    """The sections of all tables."""

    def __init__(self, memory_bytes: int, tally: Tally | None = None) -> None:
        self.footers: Final = Footers()
        self._tally = tally or Tally()
        self._split: Recent[Sequence[GroupSpan]] = Recent(_MAX_SPLIT)
        self._room = memory_bytes // _SECTION_SHARE
        self._held: Recent[Section | RowBlock] = Recent(memory_bytes)

    def at_or_after(self, plan: Plan, partition: int, offset: int) -> Found | None:
        """The first section that may hold a row at the offset or after it.

        Raises `FileNotFoundError` when a file of the plan is gone.
        """
        while (span := plan.at_or_after(partition, offset)) is not None:
            groups = self._groups(plan, span)
            at = bisect_left(groups, offset, key=attrgetter("last"))
            if at < len(groups):
                return self._open(plan, partition, groups[at])
            offset = span.last + 1
        return None

    def border(self, plan: Plan, partition: int, offset: int) -> int:
        """There is no row from the offset up to here, as far as bounds tell."""
        span = plan.at_or_after(partition, offset)
        if span is None:
            return plan.end(partition)
        if span.first >= offset:
            return span.first
        groups = self._groups(plan, span)
        at = bisect_left(groups, offset, key=attrgetter("last"))
        return max(offset, groups[at].first if at < len(groups) else span.last + 1)

    def _groups(self, plan: Plan, span: FileSpan) -> Sequence[GroupSpan]:
        key = tuple(file.path for file in span.files)
        return self._split.get(key, lambda: spans_of(plan.io, self.footers, span))

    def _open(self, plan: Plan, partition: int, span: GroupSpan) -> Found:
        key = (
            partition,
            *((group.footer.path, group.number) for group in span.groups),
            *(plan.deletes_of(group.footer.path) for group in span.groups),
        )

        def make() -> Section:
            self._tally.add(Counted.ROW_GROUPS, len(span.groups))
            room = _Room(self._held, self._room, key)
            return open_section(plan.io, span, partition, plan.deleted, room)

        section = self._held.get(key, make, _weight(span, self._room))
        assert not isinstance(section, RowBlock)
        return Found(section, key)


def _weight(span: GroupSpan, room: int) -> int:
    if len(span.groups) > 1:
        kept = index_bytes(span)
        return max(_LOCAL_BYTES, kept if kept <= room else 0)
    (group,) = span.groups
    if canonical(group.footer.path).startswith("/"):
        return _LOCAL_BYTES
    return max(_LOCAL_BYTES, group.stored_bytes)
