"""Rows by their time, from file statistics first: files that cannot hold the row are not opened.

What always holds: times are exact to the millisecond, those that no timestamp can hold too (their
rows keep the whole record); deleted rows are not found.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lakestream_spark.history.groups import Group, groups_of, live_rows
from lakestream_spark.history.manifests import PlannedFile
from lakestream_spark.history.parquet import Footers, read_columns
from lakestream_spark.history.plan import Plan
from lakestream_spark.history.tally import Counted, Tally
from lakestream_spark.kafka.arrow.layout import Longs
from lakestream_spark.kafka.records import NO_TIMESTAMP, TimestampedOffset, decode_record
from lakestream_spark.table.columns import RECORD, TIMESTAMP


class _Times(NamedTuple):
    offsets: Longs
    millis: Longs


class TimeSearch:
    """Looks for rows of one partition from an offset on."""

    def __init__(
        self, footers: Footers, plan: Plan, partition: int, from_offset: int, tally: Tally
    ) -> None:
        self._tally = tally
        self._footers = footers
        self._plan = plan
        self._partition = partition
        self._from = from_offset

    def at_or_after(self, timestamp_ms: int) -> TimestampedOffset | None:
        """The first row whose time is not before `timestamp_ms`."""
        for span in self._plan.spans(self._partition):
            if span.last < self._from:
                continue
            best: TimestampedOffset | None = None
            for file in span.files:
                if _newest_ms(file) < timestamp_ms:
                    continue
                for found in self._times_of(file):
                    late = found.millis >= timestamp_ms
                    first = _first(found.offsets[late], found.millis[late])
                    best = min(filter(None, (best, first)), default=None)
            if best is not None:
                return best
        return None

    def newest(self) -> TimestampedOffset | None:
        """The first row that has the newest time of all."""
        own = [
            file
            for span in self._plan.spans(self._partition)
            for file in span.files
            if file.offsets[1] >= self._from
        ]
        best: TimestampedOffset | None = None
        for file in sorted(own, key=_newest_ms, reverse=True):
            if best is not None and _newest_ms(file) < best.timestamp:
                break
            for found in self._times_of(file):
                latest = found.millis == found.millis.max()
                first = _first(found.offsets[latest], found.millis[latest])
                if first is not None:
                    best = min(filter(None, (best, first)), key=lambda p: (-p.timestamp, p.offset))
        return best

    def _times_of(self, file: PlannedFile) -> Iterator[_Times]:
        """Row group by row group, those with rows of ours."""
        for group in groups_of(self._plan.io, self._footers, file.path):
            if group.offsets.last < self._from:
                continue
            self._tally.add(Counted.ROW_GROUPS)
            live = live_rows(self._plan.io, group, self._partition, self._plan.deleted)
            millis = self._millis(group)
            if live.rows is not None:
                millis = millis[live.rows]
            wanted = live.offsets >= self._from
            if wanted.any():
                yield _Times(live.offsets[wanted], millis[wanted])

    def _millis(self, group: Group) -> Longs:
        columns = (TIMESTAMP, RECORD)
        table = read_columns(self._plan.io, group.footer, group.number, columns).combine_chunks()
        micros, records = (table[name].combine_chunks() for name in columns)
        millis: Longs = micros.cast("int64").fill_null(NO_TIMESTAMP * 1000).to_numpy() // 1000
        for row in np.flatnonzero(records.is_valid().to_numpy(zero_copy_only=False)).tolist():
            millis[row] = decode_record(records[row].as_py(), 0).timestamp
        return millis


def _newest_ms(file: PlannedFile) -> float:
    """No row of the file is newer."""
    return float("inf") if file.newest_micros is None else file.newest_micros // 1000


def _first(offsets: Longs, millis: Longs) -> TimestampedOffset | None:
    if not len(offsets):
        return None
    at = int(offsets.argmin())
    return TimestampedOffset(int(offsets[at]), int(millis[at]))
