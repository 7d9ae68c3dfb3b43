"""A whole log in one process: real writer, reader, reclaim and SQL over stores in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.kafka.batch import walk
from lakestream_spark.kafka.records import decode_records
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.reader import WalReader
from lakestream_spark.wal.receipt import BatchAnswer
from lakestream_spark.wal.reclaim import Reclaimer, ReclaimPolicy
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.support.batches import checked, make_batch
from tests.support.wal import GatedStore

PROFILE = "cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLog:
    """One broker's log."""

    metadata: Metadata
    store: GatedStore
    writer: WalWriter
    reader: WalReader
    clock: Clock

    async def append(self, partition: TopicPartition, *values: bytes) -> BatchAnswer:
        """Append one batch in a segment of its own."""
        (answer,) = await self.append_batch(partition, make_batch(values))
        return answer

    async def append_batch(self, partition: TopicPartition, batch: bytes) -> list[BatchAnswer]:
        return await self.writer.append(partition, checked(batch))

    async def topic(self, name: str, partitions: int = 1) -> list[TopicPartition]:
        topic = await self.metadata.topics.create(name, partitions=partitions)
        return [TopicPartition(topic.id, index) for index in range(partitions)]

    async def reclaimer(self, **policy: float) -> Reclaimer:
        return Reclaimer(
            await self.metadata.writers.register(BrokerId(1), f"reclaim-{PROFILE}"),
            ReclaimPolicy(**policy),  # type: ignore[arg-type]
            profile=PROFILE,
            store=self.store,
            ledger=self.metadata.ledger,
            clock=self.clock,
        )

    async def move_table_end(self, partition: TopicPartition, end: int) -> None:
        lease = await self.metadata.leases.try_acquire("table", "test", 1.0)
        assert lease is not None
        await self.metadata.tables.finish(lease, partition.topic_id, "c", {partition.number: end})


def records(data: bytes) -> list[tuple[int, bytes | None]]:
    """Offset and value of each record in stamped batches."""
    return [
        (record.offset, record.value)
        for position, header in walk(memoryview(data), where="test")
        for record in decode_records(memoryview(data)[position : position + header.size], header)
    ]


@asynccontextmanager
async def memory_log(
    clock: Clock | None = None, *, cache_bytes: int = 0, url: str = "sqlite://"
) -> AsyncIterator[MemoryLog]:
    clock = clock or SystemClock()
    metadata = await open_metadata(url, clock=clock)
    store = GatedStore(MemoryStore(clock=clock))
    cache = WalCache(cache_bytes)
    identity = await metadata.writers.register(BrokerId(1), PROFILE)
    writer = WalWriter(
        identity,
        FlushPolicy(max_age_ms=1),
        store=store,
        sequencer=metadata.sequencer,
        cache=cache,
        clock=SystemClock(),
    )
    try:
        async with writer:
            yield MemoryLog(
                metadata=metadata,
                store=store,
                writer=writer,
                reader=WalReader(metadata.extents, {PROFILE: store}, cache),
                clock=clock,
            )
    finally:
        await metadata.close()
