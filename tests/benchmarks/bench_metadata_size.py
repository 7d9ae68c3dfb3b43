"""Metadata size: live metadata bytes against the bytes in WAL plus table.

Simulated: 1,000 partitions, 10 MB/s in all, a segment every 250 ms with one idempotent batch for
each partition. At the end of each minute the table takes over what was there at its start, and
segments without references for a minute are forgotten. No data is written: the data's bytes are
counted, those in the WAL that the table does not have yet plus those in the table, at the same size
and at 0.3 of it (zstd). "Before" is the worst moment of a minute, just before the table ends move.
Live rows never reach back more than two minutes, so that the minutes between those shown are
written as one large segment each: the same offsets and bytes, in a fraction of the time.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import BrokerId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.wal.segment import WriterIdentity
from tests.benchmarks.harness import MB, Aim, Options, Report, progress, run
from tests.benchmarks.load import Spread, segment
from tests.benchmarks.servers import databases, fresh_url, opened
from tests.benchmarks.sizes import Size, size_of
from tests.support.clock import SimulatedClock

SEGMENTS_PER_MINUTE: Final = 240
SEGMENT_BYTES: Final = 2_500_000
SHOWN: Final = (1, 2, 3, 15)
IN_DETAIL: Final = frozenset({1, 2, 3, 14, 15})
MINUTE_BYTES: Final = SEGMENTS_PER_MINUTE * SEGMENT_BYTES
GRACE_MS: Final = 60_000
TABLE_FACTORS: Final = (1.0, 0.3)
AIM_SHARE: Final = 0.01


@dataclass(slots=True, kw_only=True)
class Stream:
    """A topic that is written and compacted minute by minute."""

    metadata: Metadata
    clock: SimulatedClock
    writer: WriterIdentity
    lease: Lease
    spread: Spread
    per_minute: int
    rounds: int = 0
    rounds_in_table: int = 0

    async def write_minute(self, segments: int) -> None:
        """A minute's records, in so many segments of one batch for each partition."""
        share = self.per_minute // segments
        spread = self.spread._replace(
            records=self.spread.records * share, batch_bytes=self.spread.batch_bytes * share
        )
        for _ in range(segments):
            await self.clock.advance(60 / segments)
            stored = segment(
                self.writer,
                self.rounds + share,
                spread,
                round_=self.rounds // share,
                created_ms=self.clock.wall_ms(),
            )
            receipt = await self.metadata.sequencer.commit(stored)
            assert not receipt.extents[-1].exceptions, receipt.extents[-1]
            self.rounds += share

    async def compact(self, rounds: int) -> None:
        """The table takes everything of the first `rounds` segments."""
        tables, topic_id = self.metadata.tables, self.spread.topic_id
        first, end = (n * self.spread.records for n in (self.rounds_in_table, rounds))
        ranges = [PlannedRange(index, first, end) for index in self.spread.partitions]
        plan = await tables.create_plan({topic_id: ranges})
        ends: Mapping[int, int] = dict.fromkeys(self.spread.partitions, end)
        await tables.finish(self.lease, topic_id, f"commit-{plan}", ends)
        await tables.prune_plans(plan)
        self.rounds_in_table = rounds

    async def reclaim(self) -> None:
        ledger = self.metadata.ledger
        before_ms = self.clock.wall_ms() - GRACE_MS
        found = await ledger.unreferenced(self.writer.profile, before_ms=before_ms, limit=10_000)
        await ledger.forget([candidate.segment_id for candidate in found])

    def data_bytes(self, table_factor: float) -> float:
        in_wal = self.rounds - self.rounds_in_table
        size = self.spread.batch_bytes * len(self.spread.partitions)
        return size * (in_wal + table_factor * self.rounds_in_table)


async def stream(metadata: Metadata, clock: SimulatedClock, options: Options) -> Stream:
    partitions = 20 if options.quick else 1_000
    topic = await metadata.topics.create("size", partitions=partitions)
    lease = await metadata.leases.try_acquire("table", "bench", 60.0)
    if lease is None:
        raise LakestreamError("the lease of an empty store must be free")
    return Stream(
        metadata=metadata,
        clock=clock,
        writer=await metadata.writers.register(BrokerId(1), "cost"),
        lease=lease,
        spread=Spread(
            topic.id,
            range(partitions),
            batch_bytes=SEGMENT_BYTES // partitions,
            producer_id=7,
        ),
        per_minute=4 if options.quick else SEGMENTS_PER_MINUTE,
    )


async def measure_on(report: Report, kind: str, options: Options) -> None:
    clock = SimulatedClock()
    minutes = 2 if options.quick else max(SHOWN)
    async with fresh_url(kind) as url, opened(url, clock) as metadata:
        running = await stream(metadata, clock, options)
        for minute in range(1, minutes + 1):
            began, at_start = time.perf_counter(), running.rounds
            await running.write_minute(running.per_minute if minute in IN_DETAIL else 1)
            if minute in SHOWN:
                _add(report, kind, minute, "before", running, await size_of(url))
            await running.compact(at_start)
            await running.reclaim()
            if minute in SHOWN:
                _add(report, kind, minute, "after", running, await size_of(url))
            took = time.perf_counter() - began
            progress(f"metadata_size: {kind} minute {minute} simulated in {took:.1f} s")


def _add(report: Report, kind: str, minute: int, moment: str, running: Stream, size: Size) -> None:
    shares = [size.live / running.data_bytes(factor) for factor in TABLE_FACTORS]
    report.add(
        database=kind,
        minute=minute,
        table_ends=moment,
        wal_mb=(running.rounds - running.rounds_in_table) * SEGMENT_BYTES / MB,
        table_mb=running.rounds_in_table * SEGMENT_BYTES / MB,
        live_mb=size.live / MB,
        percent=100 * shares[0],
        percent_if_zstd=100 * shares[1],
        files_mb=size.on_disk / MB,
    )
    if minute in (1, max(SHOWN)) and moment == "before":
        for factor, share in zip(TABLE_FACTORS, shares, strict=True):
            name = f"live metadata, {kind}, minute {minute}, table at {factor} of the bytes"
            figure = f"{100 * share:.2f} %"
            report.aims.append(Aim(name, f"< {100 * AIM_SHARE:g} %", figure, share < AIM_SHARE))
    if minute == max(SHOWN) and moment == "before":
        for factor in TABLE_FACTORS:
            missing = max(0.0, size.live / AIM_SHARE - 2 * MINUTE_BYTES) / (factor * MINUTE_BYTES)
            report.notes.append(
                f"{kind}, table at {factor} of the bytes: below {100 * AIM_SHARE:g} % at every "
                f"moment from minute {2 + math.ceil(missing)} on"
            )


async def measure(report: Report, options: Options) -> None:
    for kind in databases(report, options):
        await measure_on(report, kind, options)


if __name__ == "__main__":
    run("metadata_size", measure)
