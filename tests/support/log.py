"""A log seen from outside: read it, follow it, compact it, reclaim it, and look for garbage.

Real stores, a real metadata store, real time. The table is a dictionary that rows are copied into.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final
from uuid import uuid4

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Transient
from lakestream_spark.core.ids import BrokerId, SegmentId, TopicPartition
from lakestream_spark.kafka.batch import walk
from lakestream_spark.kafka.records import decode_records
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.keys import WAL_PREFIX, parse_segment_key
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.reader import WalReader
from lakestream_spark.wal.reclaim import Reclaimer, ReclaimPolicy
from tests.simulation.audit import audit
from tests.support.checker import Poll, Row

RECLAIM_BROKER: Final = BrokerId(0)
HASTY: Final = ReclaimPolicy(grace_ms=300, evacuate_after_ms=1_000)
_READ_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class Log:
    """What everybody but the writers does with a log."""

    metadata: Metadata
    stores: Mapping[str, ObjectStore]
    policy: ReclaimPolicy
    reader: WalReader = field(init=False)
    topics: list[Topic] = field(default_factory=list)
    table: dict[TopicPartition, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    reclaimers: list[Reclaimer] = field(default_factory=list)
    deleted: int = 0
    orphans: int = 0
    evacuated: int = 0
    commits: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        # No cache: what is read comes from the store.
        self.reader = WalReader(self.metadata.extents, self.stores, WalCache(0))

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(t.id, index) for t in self.topics for index in range(t.partitions)]

    async def create_topics(self, *names: str, partitions: int) -> None:
        for name in names:
            self.topics.append(await self.metadata.topics.create(name, partitions=partitions))

    # Reading

    async def read_all(self) -> dict[str, list[Row]]:
        """Every record of every partition: the table's, then the WAL's."""
        return {
            str(partition): await self._read_partition(partition) for partition in self.partitions
        }

    async def _read_partition(self, partition: TopicPartition) -> list[Row]:
        ends = (await self.metadata.tables.ends(partition.topic_id))[partition.number]
        rows = self._table_rows(partition, 0, ends.table_end)
        tail = await self._read_wal(partition, ends.table_end, ends.high_watermark)
        return [*rows, *tail]

    def _table_rows(self, partition: TopicPartition, first: int, end: int) -> list[Row]:
        own = self.table[partition]
        return [(offset, own[offset]) for offset in range(first, end) if offset in own]

    async def _read_wal(self, partition: TopicPartition, offset: int, end: int) -> list[Row]:
        rows: list[Row] = []
        while offset < end:
            result = await self.reader.read(partition, offset, _READ_BYTES, for_table=True)
            rows += decoded(result.data, offset)
            offset = result.next_offset
        return [row for row in rows if row[0] < end]

    async def follow(self, partition: TopicPartition, into: Poll) -> None:
        """A consumer that reads from offset 0 on, across the seam, until it is cancelled."""
        rows = into.rows
        assert isinstance(rows, list)
        while True:
            offset = rows[-1][0] + 1 if rows else 0
            try:
                result = await self.reader.read(partition, offset, 20_000)
            except Transient:
                await asyncio.sleep(0.05)
                continue
            found = decoded(result.data, offset)
            if not found and offset < result.ends.table_end:
                found = self._table_rows(partition, offset, result.ends.table_end)
            rows += found
            if not found:
                await asyncio.sleep(0.05)

    # The table's side

    async def compact(self, random: Random) -> None:
        """Copy the first part of each partition's WAL into the table and move its end."""
        for topic in self.topics:
            name = f"table/{topic.id}"
            lease = await self.metadata.leases.try_acquire(name, "compaction", 1.0)
            assert lease is not None
            ends: dict[int, int] = {}
            for index, at in (await self.metadata.tables.ends(topic.id)).items():
                partition = TopicPartition(topic.id, index)
                upto = at.table_end + int(random.random() * (at.last_stable - at.table_end))
                self._take(partition, await self._read_wal(partition, at.table_end, upto))
                ends[index] = upto
            self.commits += 1
            await self.metadata.leases.renew(lease)
            await self.metadata.tables.finish(lease, topic.id, uuid4().hex, ends)

    def _take(self, partition: TopicPartition, rows: Sequence[Row]) -> None:
        own = self.table[partition]
        for offset, value in rows:
            # A copy whose end was not moved is made again; it must be the same.
            assert own.setdefault(offset, value) == value, (partition, offset)

    async def start_reclaim(self) -> None:
        """A new registration per profile; the one before it is fenced."""
        self.reclaimers = [
            Reclaimer(
                await self.metadata.writers.register(RECLAIM_BROKER, f"reclaim-{profile}"),
                self.policy,
                profile=profile,
                store=store,
                ledger=self.metadata.ledger,
                clock=SystemClock(),
            )
            for profile, store in self.stores.items()
        ]

    async def reclaim(self) -> bool:
        """One run for each profile; whether there was nothing to do."""
        quiet = True
        for reclaimer in self.reclaimers:
            report = await reclaimer.run_once()
            self.deleted += report.deleted
            self.orphans += report.orphans
            self.evacuated += report.evacuated
            done = report.deleted + report.orphans + report.evacuated
            quiet = quiet and done == 0 and report.finished
        return quiet

    async def _drop_reclaim(self, random: Random) -> None:
        """A reclaimer that ends in the middle of what it does, and its successor."""
        with suppress(TimeoutError):
            async with asyncio.timeout(random.uniform(0.0, 0.03)):
                await self.reclaim()
                return
        await self.start_reclaim()
        self.dropped += 1

    async def keep_house(self, random: Random) -> None:
        """Compact and reclaim until cancelled."""
        while True:
            try:
                await self.compact(random)
                if random.random() < 0.2:
                    await self._drop_reclaim(random)
                await self.reclaim()
            except Transient:
                pass  # The store is away; the next round does it.
            await asyncio.sleep(random.uniform(0.1, 0.5))

    # The end

    async def fence_everybody(self) -> None:
        for observed in await self.metadata.writers.observe():
            await self.metadata.writers.fence(observed.identity)

    async def assert_no_garbage(self) -> None:
        """Once every writer is fenced and every grace is over, only referenced objects are left."""
        await self.fence_everybody()
        await self.start_reclaim()
        quiet = 0
        for _ in count():
            # What an evacuation leaves behind has a grace of its own.
            quiet = quiet + 1 if await self.reclaim() else 0
            if quiet == 2:
                break
            await asyncio.sleep(self.policy.grace_ms / 1000 + 0.05)
        referenced = await self._referenced()
        for profile, store in self.stores.items():
            left = [parse_segment_key(info.key) async for info in store.list(WAL_PREFIX)]
            assert set(left) == referenced[profile], profile
        await audit(self.metadata.database)

    async def _referenced(self) -> dict[str, set[SegmentId]]:
        found: dict[str, set[SegmentId]] = defaultdict(set)
        for partition in self.partitions:
            ends = (await self.metadata.tables.ends(partition.topic_id))[partition.number]
            located = await self.metadata.extents.locate(partition, ends.table_end, 1 << 40)
            for extent in located.extents:
                found[extent.profile].add(extent.segment_id)
        return found


def decoded(data: bytes, wanted: int) -> list[Row]:
    """The records of stamped batches from offset `wanted` on."""
    rows: list[Row] = []
    for position, header in walk(data, where="read"):
        rows += [
            (record.offset, (record.value or b"").decode())
            for record in decode_records(data[position : position + header.size], header)
        ]
    return [row for row in rows if row[0] >= wanted]


@asynccontextmanager
async def open_log(
    metadata_url: str,
    stores: Mapping[str, ObjectStore],
    policy: ReclaimPolicy = HASTY,
) -> AsyncIterator[Log]:
    metadata = await open_metadata(metadata_url, clock=SystemClock())
    try:
        yield Log(metadata, stores, policy)
    finally:
        await metadata.close()


@asynccontextmanager
async def in_background(
    *work: Coroutine[None, None, None],
) -> AsyncIterator[Callable[[], None]]:
    """Runs until the body ends; what is yielded raises the first error that came meanwhile."""
    tasks = [asyncio.create_task(each) for each in work]

    def still_fine() -> None:
        for task in tasks:
            if task.done():
                task.result()

    try:
        yield still_fine
        still_fine()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
