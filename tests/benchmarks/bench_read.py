"""Read: MB/s of `WalReader`, in reads of about 1 MB from the first offset to the last.

"one of many" follows single partitions, "all" asks for every partition in one `read_many`. Warm
means that the writer's segments are in the cache; cold begins with an empty one, and local files
are dropped from the page cache before. Peer: the same ranges, known beforehand, copied out of
memory, read with pread, or with obstore's get_ranges; no index, no CRC, no stamping.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.objectstore.cloud import CloudStore
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.reader import ReadRequest, WalReader
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.benchmarks.harness import MB, Cost, Options, Report, cost_of, in_turns, median_cost, run
from tests.benchmarks.load import producer_batches
from tests.benchmarks.plain import Call, copy_ranges, forget_pages, get_ranges, pread_ranges
from tests.benchmarks.servers import SQLITE, fresh_metadata, s3_server, scratch
from tests.support.batches import checked
from tests.support.s3 import S3Server

PARTITIONS: Final = 16
READ_BYTES: Final = 1024 * 1024
PROFILE: Final = "cost"
FOLLOWED: Final = 4
CACHE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What was written, and the writer's cache."""

    metadata: Metadata
    store: ObjectStore
    partitions: list[TopicPartition]
    cache: WalCache


async def write(metadata: Metadata, store: ObjectStore, total: int) -> Log:
    topic = await metadata.topics.create("read", partitions=PARTITIONS)
    partitions = [TopicPartition(topic.id, index) for index in range(PARTITIONS)]
    cache = WalCache(2 * total)
    identity = await metadata.writers.register(BrokerId(1), PROFILE)
    count = max(1, total // PARTITIONS // 65_536)
    async with WalWriter(
        identity,
        FlushPolicy(),
        store=store,
        sequencer=metadata.sequencer,
        cache=cache,
        clock=SystemClock(),
    ) as writer:
        batches = producer_batches(count, record_bytes=1_000, batch_bytes=65_536, producer_id=1)
        await asyncio.gather(
            *(writer.append(partition, checked(raw)) for raw in batches for partition in partitions)
        )
    return Log(metadata=metadata, store=store, partitions=partitions, cache=cache)


async def read_all(reader: WalReader, groups: Sequence[Sequence[TopicPartition]]) -> int:
    """Read each group of partitions to its end, one `read_many` after the other."""
    total = 0
    for group in groups:
        offsets = dict.fromkeys(group, 0)
        while offsets:
            requests = [ReadRequest(part, at, READ_BYTES) for part, at in offsets.items()]
            for request, result in zip(requests, await reader.read_many(requests), strict=True):
                if isinstance(result, LakestreamError):
                    raise result
                total += len(result.data)
                offsets[request.partition] = result.next_offset
                if result.next_offset == result.ends.high_watermark:
                    del offsets[request.partition]
    return total


async def calls_of(log: Log, groups: Sequence[Sequence[TopicPartition]]) -> list[Call]:
    """The ranges of the same reads, call by call."""
    calls: list[Call] = []
    for group in groups:
        offsets = dict.fromkeys(group, 0)
        while offsets:
            call: Call = {}
            for part, at in list(offsets.items()):
                located = await log.metadata.extents.locate(part, at, READ_BYTES)
                for extent in located.extents:
                    call.setdefault(extent.segment_id, []).append(extent)
                offsets[part] = located.extents[-1].next_offset
                if offsets[part] == located.ends.high_watermark:
                    del offsets[part]
            calls.append(call)
    return calls


def nothing() -> None:
    """Nothing to forget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the bytes come from: the cache, the disk or S3, and how the peer gets them."""

    name: str
    log: Log
    peer: Callable[[list[Call]], Awaitable[None]]
    forget: Callable[[], None] = nothing
    warm: bool = False


async def compare(report: Report, place: Place, rounds: int) -> None:
    one_by_one = [[partition] for partition in place.log.partitions[:FOLLOWED]]
    await compare_shape(report, place, rounds, "one of many", one_by_one)
    await compare_shape(report, place, rounds, "all", [place.log.partitions])


async def compare_shape(
    report: Report,
    place: Place,
    rounds: int,
    shape: str,
    groups: Sequence[Sequence[TopicPartition]],
) -> None:
    log = place.log
    calls = await calls_of(log, groups)
    size = sum(extent.length for call in calls for own in call.values() for extent in own)

    async def ours(_: int) -> Cost:
        place.forget()
        cache = log.cache if place.warm else WalCache(CACHE_BYTES)
        reader = WalReader(log.metadata.extents, {PROFILE: log.store}, cache)
        return await cost_of(read_all(reader, groups))

    async def peer(_: int) -> Cost:
        place.forget()
        return await cost_of(place.peer(calls))

    costs = await in_turns(rounds, {"ours": ours, "peer": peer})
    mine, plain = median_cost(costs["ours"]), median_cost(costs["peer"])
    report.add(
        bytes_from=place.name,
        partitions=shape,
        mb=round(size / MB),
        mb_per_s=mine.mb_per_s(size),
        cpu_s_per_gb=mine.cpu_s_per_gb(size),
        plain_mb_per_s=plain.mb_per_s(size),
        plain_cpu_s_per_gb=plain.cpu_s_per_gb(size),
        share_of_plain=plain.wall_s / mine.wall_s,
    )


async def measure_local(report: Report, total: int, rounds: int) -> None:
    with scratch() as folder:
        async with fresh_metadata(SQLITE) as metadata:
            log = await write(metadata, open_store(folder.as_uri()), total)
            warm = Place(
                name="warm cache",
                log=log,
                peer=lambda calls: copy_ranges(calls, log.cache),
                warm=True,
            )
            cold = Place(
                name="cold disk",
                log=log,
                peer=lambda calls: pread_ranges(calls, folder),
                forget=lambda: forget_pages(folder),
            )
            await compare(report, warm, rounds)
            await compare(report, cold, rounds)


async def measure_s3(report: Report, server: S3Server, total: int, rounds: int) -> None:
    store = open_store(server.new_url(), server.options())
    assert isinstance(store, CloudStore)
    async with fresh_metadata(SQLITE) as metadata:
        log = await write(metadata, store, total)
        cold = Place(name="cold s3", log=log, peer=lambda calls: get_ranges(calls, store))
        await compare(report, cold, rounds)


async def measure(report: Report, options: Options) -> None:
    total, rounds = (4_000_000, 1) if options.quick else (256_000_000, 7)
    await measure_local(report, total, rounds)
    with s3_server(report, options) as server:
        if server is not None:
            await measure_s3(report, server, total, rounds)


if __name__ == "__main__":
    run("read", measure)
