"""Commit: p50 and p99 of `sequencer.commit` for segments that touch 1, 100 and 1,000 partitions.

Plain batches have no producer id; idempotent ones are checked and remembered; "two brokers" is
idempotent as well, with two brokers that take turns, so that neither knows the producers' states
from its own last commit. Peer: a transaction that updates one row of the same database, as durable.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from lakestream_spark.core.ids import BrokerId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.database import Execute, Transaction
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
    run,
)
from tests.benchmarks.load import NO_PRODUCER, Spread, segment
from tests.benchmarks.servers import databases, fresh_url, opened

SIZES: Final = (1, 100, 1_000)
AIM_PARTITIONS: Final = 1_000
AIM_P99_MS: Final = 25.0
WARM_UP: Final = 10


class Kind(NamedTuple):
    name: str
    producer_id: int
    brokers: int


KINDS: Final = (
    Kind("plain", NO_PRODUCER, 1),
    Kind("idempotent", 7, 1),
    Kind("two brokers", 7, 2),
)


class Broker(NamedTuple):
    metadata: Metadata
    writer: WriterIdentity


@asynccontextmanager
async def brokers(url: str) -> AsyncIterator[list[Broker]]:
    """Two brokers, each with its own view of the store."""
    async with opened(url) as first, opened(url) as second:
        yield [
            Broker(metadata, await metadata.writers.register(BrokerId(number), "cost"))
            for number, metadata in enumerate((first, second), 1)
        ]


def one_row() -> Transaction[None]:
    yield Execute("UPDATE counters SET value = value + 1 WHERE name = 'bench'")


def make_row() -> Transaction[None]:
    yield Execute("INSERT INTO counters (name, value) VALUES ('bench', 0)")


class Commits:
    """Commits of one kind and size, each with its own segment, on a topic of its own."""

    def __init__(self, own: list[Broker], spread: Spread, used: dict[WriterIdentity, int]) -> None:
        self._brokers = own
        self._spread = spread
        self._used = used
        self._round = 0

    async def __call__(self, number: int) -> Cost:
        broker = self._brokers[self._round % len(self._brokers)]
        n = self._used[broker.writer] = self._used.get(broker.writer, 0) + 1
        stored = segment(broker.writer, n, self._spread, round_=self._round)
        self._round += 1
        return await cost_of(broker.metadata.sequencer.commit(stored))


async def measure_on(report: Report, kind: str, commits: int) -> None:
    async with fresh_url(kind) as url, brokers(url) as both:
        database = both[0].metadata.database
        await database.run(make_row())
        used: dict[WriterIdentity, int] = {}

        async def update(number: int) -> Cost:
            return await cost_of(database.run(one_row()))

        for batches in KINDS:
            for size in SIZES:
                topics = both[0].metadata.topics
                name = f"{batches.name.replace(' ', '-')}-{size}"
                topic = await topics.create(name, partitions=size)
                spread = Spread(topic.id, range(size), producer_id=batches.producer_id)
                commit = Commits(both[: batches.brokers], spread, used)
                contenders: dict[str, Callable[[int], Awaitable[Cost]]]
                contenders = {"ours": commit, "peer": update}
                await in_turns(WARM_UP, contenders)
                costs = await in_turns(commits, contenders)
                _add(report, kind, batches, size, costs["ours"], costs["peer"])


def _add(
    report: Report, kind: str, batches: Kind, size: int, ours: list[Cost], peer: list[Cost]
) -> None:
    p99 = p99_ms(ours)
    report.add(
        database=kind,
        batches=batches.name,
        partitions=size,
        commits=len(ours),
        p50_ms=p50_ms(ours),
        p99_ms=p99,
        cpu_ms=cpu_ms(ours),
        one_row_p50_ms=p50_ms(peer),
        one_row_p99_ms=p99_ms(peer),
        p50_ratio=p50_ms(ours) / p50_ms(peer),
    )
    if size == AIM_PARTITIONS:
        name = f"commit p99, {size} partitions, {kind}, {batches.name}"
        report.aims.append(Aim.at_most(name, AIM_P99_MS, p99, "ms"))


async def measure(report: Report, options: Options) -> None:
    for kind in databases(report, options):
        await measure_on(report, kind, 5 if options.quick else 250)


if __name__ == "__main__":
    run("commit", measure)
