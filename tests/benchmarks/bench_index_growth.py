"""Index growth: does a commit (100 partitions) or a look-up slow down as the index grows?

Two stores of the same kind: a small one that stays at 10^3 extents and one that grows by real
commits. At each size they take turns, so that the ratio is free of the machine's moods. The
measured commits go to partitions spread over the whole index; every few commits the table takes
as much from its old end as they added, so that the sizes stay what they are said to be.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Final

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import BrokerId, TopicId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.wal.segment import WriterIdentity
from tests.benchmarks.harness import (
    Aim,
    Cost,
    Options,
    Report,
    cost_of,
    cpu_ms,
    in_turns,
    p50_ms,
    p99_ms,
    progress,
    run,
)
from tests.benchmarks.load import Spread, segment
from tests.benchmarks.servers import databases, fresh_metadata

PARTITIONS: Final = 1_000
PROBED: Final = range(0, PARTITIONS, 10)
SMALL: Final = 1_000
RECORDS: Final = 3
COMMITS_PER_TRIM: Final = 5
AIM_RATIO: Final = 1.3
WARM_UP: Final = 20


@dataclass(slots=True, kw_only=True)
class Index:
    """A store with one topic, `rounds` extents in every partition."""

    metadata: Metadata
    topic_id: TopicId
    writer: WriterIdentity
    lease: Lease
    random: Random = field(default_factory=lambda: Random(1))
    n: int = 0
    rounds: int = 0
    probes: int = 0

    @classmethod
    async def create(cls, metadata: Metadata) -> "Index":
        topic = await metadata.topics.create("growth", partitions=PARTITIONS)
        lease = await metadata.leases.try_acquire("table", "bench", 60.0)
        if lease is None:
            raise LakestreamError("the lease of an empty store must be free")
        writer = await metadata.writers.register(BrokerId(1), "cost")
        return cls(metadata=metadata, topic_id=topic.id, writer=writer, lease=lease)

    async def grow(self, extents: int) -> None:
        everywhere = Spread(self.topic_id, range(PARTITIONS), records=RECORDS)
        while self.rounds * PARTITIONS < extents:
            await self._commit(everywhere)
            self.rounds += 1

    async def probe(self, _: int) -> Cost:
        """One measured commit."""
        cost = await self._commit(Spread(self.topic_id, PROBED, records=RECORDS))
        self.probes += 1
        if self.probes % COMMITS_PER_TRIM == 0:
            ends = dict.fromkeys(PROBED, self.probes * RECORDS)
            await self.metadata.tables.finish(self.lease, self.topic_id, "trim", ends)
        return cost

    async def tail(self, _: int) -> Cost:
        """Look up the last extent of a partition, as a consumer at the tail does."""
        index = self.random.choice(PROBED)
        return await self._locate(index, self._high_watermark(index) - 1, 1_000_000)

    async def anywhere(self, _: int) -> Cost:
        """Look up an extent anywhere in the index, and nothing after it."""
        index = self.random.choice(PROBED)
        end = self._high_watermark(index)
        return await self._locate(index, self.random.randrange(self.probes * RECORDS, end), 1)

    def _high_watermark(self, index: int) -> int:
        return (self.rounds + self.probes) * RECORDS

    async def _locate(self, index: int, offset: int, max_bytes: int) -> Cost:
        partition = TopicPartition(self.topic_id, index)
        return await cost_of(self.metadata.extents.locate(partition, offset, max_bytes))

    async def _commit(self, spread: Spread) -> Cost:
        self.n += 1
        stored = segment(self.writer, self.n, spread, round_=0, created_ms=self.n)
        return await cost_of(self.metadata.sequencer.commit(stored))


async def compare(
    report: Report, kind: str, extents: int, small: Index, grown: Index, rounds: int
) -> None:
    turns: dict[str, Callable[[Index], Callable[[int], Awaitable[Cost]]]] = {
        "commit, 100 partitions": lambda index: index.probe,
        "locate at the tail": lambda index: index.tail,
        "locate anywhere": lambda index: index.anywhere,
    }
    for name, turn in turns.items():
        contenders = {"small": turn(small), "grown": turn(grown)}
        await in_turns(min(WARM_UP, rounds), contenders)
        costs = await in_turns(rounds, contenders)
        ours, base = costs["grown"], costs["small"]
        ratio = p50_ms(ours) / p50_ms(base)
        report.add(
            database=kind,
            extents=extents,
            what=name,
            p50_ms=p50_ms(ours),
            p99_ms=p99_ms(ours),
            cpu_ms=cpu_ms(ours),
            small_p50_ms=p50_ms(base),
            small_p99_ms=p99_ms(base),
            p50_ratio=ratio,
        )
        if extents == 1_000_000:
            what = f"{name}, {kind}: p50 at {extents:,} extents to p50 at {SMALL:,}"
            report.aims.append(Aim.at_most(what, AIM_RATIO, ratio, "times"))


async def measure_on(report: Report, kind: str, options: Options) -> None:
    sizes = (1_000, 2_000) if options.quick else (1_000, 10_000, 100_000, 1_000_000)
    async with AsyncExitStack() as stack:
        small, grown = [
            await Index.create(await stack.enter_async_context(fresh_metadata(kind)))
            for _ in range(2)
        ]
        await small.grow(SMALL)
        for extents in sizes:
            progress(f"index_growth: {kind} grows to {extents:,} extents")
            await grown.grow(extents)
            await compare(report, kind, extents, small, grown, 3 if options.quick else 200)


async def measure(report: Report, options: Options) -> None:
    for kind in databases(report, options):
        await measure_on(report, kind, options)


if __name__ == "__main__":
    run("index_growth", measure)
