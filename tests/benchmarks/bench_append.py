"""Append: MB/s and CPU-seconds per GB, from a producer's bytes to the answers with offsets.

Measured: check (header, CRC), collect, seal, upload, commit, answer. Peer: the same bytes as plain
objects in the same store, without any of that. Batches are opaque, so that the size of
records matters only through the size of batches; the last case shows smaller batches.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.kafka.batch import check
from lakestream_spark.objectstore.cloud import CloudStore
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.retrying import Retrying
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.benchmarks.harness import MB, Cost, Options, Report, cost_of, in_turns, median_cost, run
from tests.benchmarks.load import producer_batches
from tests.benchmarks.plain import UPLOADS, empty, put_objects, write_objects
from tests.benchmarks.servers import (
    POSTGRES,
    SQLITE,
    databases,
    fresh_metadata,
    s3_server,
    scratch,
)
from tests.support.s3 import S3Server

PARTITIONS: Final = 16
IN_FLIGHT: Final = 32 * 1024 * 1024
OBJECT_BYTES: Final = 8 * 1024 * 1024
Contenders: TypeAlias = dict[str, Callable[[int], Awaitable[Cost]]]


class Case(NamedTuple):
    record_bytes: int
    batch_bytes: int


CASES: Final = (
    Case(100, 64 * 1024),
    Case(1_000, 64 * 1024),
    Case(10_000, 64 * 1024),
    Case(1_000, 16 * 1024),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """All bytes of one run: batches by partition, and the same bytes as plain objects."""

    batches: list[list[bytes]]
    depth: int
    objects: list[bytes]
    bytes: int

    @classmethod
    def of(cls, case: Case, total: int) -> "Load":
        count = max(1, total // PARTITIONS // case.batch_bytes)
        batches = [
            producer_batches(
                count,
                record_bytes=case.record_bytes,
                batch_bytes=case.batch_bytes,
                producer_id=number,
            )
            for number in range(PARTITIONS)
        ]
        joined = b"".join(batch for own in batches for batch in own)
        objects = [joined[at : at + OBJECT_BYTES] for at in range(0, len(joined), OBJECT_BYTES)]
        depth = max(1, IN_FLIGHT // PARTITIONS // case.batch_bytes)
        return cls(batches=batches, depth=depth, objects=objects, bytes=len(joined))


async def append_all(kind: str, store: ObjectStore, load: Load) -> Cost:
    """Every batch through a new writer on an empty metadata store."""
    async with fresh_metadata(kind) as metadata:
        topic = await metadata.topics.create("append", partitions=PARTITIONS)
        writer = WalWriter(
            await metadata.writers.register(BrokerId(1), "cost"),
            FlushPolicy(max_bytes=OBJECT_BYTES, max_uploads=UPLOADS),
            store=store,
            sequencer=metadata.sequencer,
            cache=WalCache(64 * 1024 * 1024),
            clock=SystemClock(),
        )

        left = sum(map(len, load.batches))

        async def caller(partition: TopicPartition, batches: Iterator[bytes]) -> None:
            nonlocal left
            for raw in batches:
                left -= 1
                if left == 0:  # The rest need not grow old: throughput is asked, not latency.
                    asyncio.get_running_loop().call_soon(writer.seal)
                (answer,) = await writer.append(partition, check(raw, max_message_bytes=1 << 20))
                assert answer.base_offset >= 0, answer

        async with writer:
            feeds = [iter(own) for own in load.batches]
            callers = [
                caller(TopicPartition(topic.id, index), feed)
                for _ in range(load.depth)
                for index, feed in enumerate(feeds)
            ]
            return await cost_of(asyncio.gather(*callers))


async def compare(
    report: Report, where: str, total: int, rounds: int, contenders: Callable[[Load], Contenders]
) -> None:
    for case in CASES:
        load = Load.of(case, total)
        costs = await in_turns(rounds, contenders(load))
        ours, peer = median_cost(costs["ours"]), median_cost(costs["peer"])
        report.add(
            store=where,
            record_bytes=case.record_bytes,
            batch_bytes=case.batch_bytes,
            mb=round(load.bytes / MB),
            mb_per_s=ours.mb_per_s(load.bytes),
            cpu_s_per_gb=ours.cpu_s_per_gb(load.bytes),
            plain_mb_per_s=peer.mb_per_s(load.bytes),
            plain_cpu_s_per_gb=peer.cpu_s_per_gb(load.bytes),
            share_of_plain=peer.wall_s / ours.wall_s,
        )


def on_disk(load: Load, pool: ThreadPoolExecutor) -> Contenders:
    async def ours(_: int) -> Cost:
        with scratch() as folder:
            return await append_all(SQLITE, open_store(folder.as_uri()), load)

    async def peer(_: int) -> Cost:
        with scratch() as folder:
            return await cost_of(write_objects(folder, pool, load.objects))

    return {"ours": ours, "peer": peer}


def on_s3(load: Load, server: S3Server, kind: str) -> Contenders:
    def place() -> CloudStore:
        store = open_store(server.new_url(), server.options())
        assert isinstance(store, CloudStore)
        return store

    async def ours(_: int) -> Cost:
        store = place()
        cost = await append_all(kind, Retrying(store), load)
        await empty(store)
        return cost

    async def peer(_: int) -> Cost:
        store = place()
        cost = await cost_of(put_objects(store, load.objects))
        await empty(store)
        return cost

    return {"ours": ours, "peer": peer}


async def measure(report: Report, options: Options) -> None:
    total, rounds = (4_000_000, 1) if options.quick else (256_000_000, 3)
    with ThreadPoolExecutor(UPLOADS) as pool:
        await compare(report, f"disk+{SQLITE}", total, rounds, partial(on_disk, pool=pool))
    kind = databases(report, options)[-1]
    with s3_server(report, options) as server:
        if server is not None:
            contenders = partial(on_s3, server=server, kind=kind)
            await compare(report, f"s3+{kind}", total // 2, rounds, contenders)
    if kind != POSTGRES and not options.embedded:
        report.notes.append("the S3 rows have their metadata in SQLite")


if __name__ == "__main__":
    run("append", measure)
