"""A small cluster in one process, the model it is compared with, and the checker.

Real: WAL writer, reader, reclaim, segment format, every SQL transaction (SQLite in memory).
Simulated: time, the object store's and the metadata store's luck, the table (a dictionary).

`World.check` looks at the invariants of the log by their names; it raises `Broken` with the name of
the first that does not hold.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from lakestream_spark.core.errors import Fenced, LakestreamError, NotFound, Transient, UnknownTopic
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.core.retry import Backoff
from lakestream_spark.kafka.batch import BatchHeader, walk
from lakestream_spark.kafka.records import decode_records
from lakestream_spark.metadata.partitions import PartitionIds
from lakestream_spark.metadata.sequencer import SqlSequencer
from lakestream_spark.metadata.store import Metadata, services
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.keys import WAL_PREFIX, parse_segment_key, segment_key
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.ports import ExtentLocation
from lakestream_spark.wal.reader import WalReader
from lakestream_spark.wal.receipt import BatchAnswer, Verdict
from lakestream_spark.wal.reclaim import Reclaimer, ReclaimPolicy
from lakestream_spark.wal.segment import WriterIdentity
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.simulation.audit import audit
from tests.simulation.faults import Fault, FaultySequencer, FaultyStore
from tests.support.batches import checked, make_batch
from tests.support.clock import SimulatedClock
from tests.support.sqlite import InlineSqlite

T = TypeVar("T")

PROFILE = "cost"
GRACE_MS = 60_000
EVACUATE_AFTER_MS = 600_000
POLICY = FlushPolicy(
    max_age_ms=10**9,
    max_bytes=10**9,
    answer_within_ms=10_000,
    commit_backoff=Backoff(first_s=0.1, cap_s=0.1),
)


class Broken(AssertionError):
    """An invariant does not hold; the message begins with its name."""


def require(holds: bool, name: str, **facts: object) -> None:
    if not holds:
        raise Broken(f"{name}: {facts}")


class Sent(NamedTuple):
    """A batch that a producer sent at least once."""

    partition: TopicPartition
    values: tuple[bytes, ...]
    producer_id: int
    epoch: int
    sequence: int


@dataclass
class PartitionModel:
    """What the world knows must be true of one partition."""

    acked: dict[int, bytes] = field(default_factory=dict)
    sent: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    first_answer: dict[tuple[int, int, int], int] = field(default_factory=dict)
    high_watermark: int = 0
    log_start: int = 0
    table: dict[int, bytes] = field(default_factory=dict)


class Broker:
    """One registration and its writer. A crash drops it; a zombie lives on after its successor."""

    def __init__(self, world: "World", identity: WriterIdentity) -> None:
        self.identity = identity
        self.store = FaultyStore(world.store)
        self.sequencer = FaultySequencer(world.new_sequencer())
        self.writer = WalWriter(
            identity,
            POLICY,
            store=self.store,
            sequencer=self.sequencer,
            cache=WalCache(0),
            clock=world.clock,
        )
        self.sends: list[tuple[Sent, asyncio.Task[list[BatchAnswer]]]] = []


class World:
    """Everything, and the operations the state machine draws from."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = SimulatedClock()
        self.store = MemoryStore(clock=self.clock)
        self.models: dict[TopicPartition, PartitionModel] = defaultdict(PartitionModel)
        self.topics: dict[str, Topic] = {}
        self.brokers: dict[int, Broker] = {}
        self.zombies: list[Broker] = []
        self.dead: list[WriterIdentity] = []
        self.handed_out: list[tuple[float, ExtentLocation]] = []
        self.metadata: Metadata = self.run(self._open())
        self.reader = WalReader(self.metadata.extents, {PROFILE: self.store}, WalCache(0))
        self.reclaim_identity = self.run(
            self.metadata.writers.register(BrokerId(0), f"reclaim-{PROFILE}")
        )
        self.reclaimer = self.new_reclaimer()
        self._value = 0
        self._commit = 0

    async def _open(self) -> Metadata:
        return await services(InlineSqlite(), self.clock)

    def new_reclaimer(self, grace_ms: int = GRACE_MS) -> Reclaimer:
        return Reclaimer(
            self.reclaim_identity,
            ReclaimPolicy(grace_ms=grace_ms, evacuate_after_ms=EVACUATE_AFTER_MS),
            profile=PROFILE,
            store=self.store,
            ledger=self.metadata.ledger,
            clock=self.clock,
        )

    def new_sequencer(self) -> SqlSequencer:
        """One of its own for each broker, as processes have: what it remembers may be stale."""
        return SqlSequencer(self.metadata.database, PartitionIds(), self.clock)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        for broker in [*self.brokers.values(), *self.zombies]:
            self.drop(broker)
        self.run(self.metadata.close())
        self.loop.close()

    # Topics

    def create_topic(self, name: str, partitions: int) -> None:
        self.topics[name] = self.run(self.metadata.topics.create(name, partitions=partitions))

    def delete_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        self.run(self.metadata.topics.delete(topic.id))
        for index in range(topic.partitions):
            self.models.pop(TopicPartition(topic.id, index), None)

    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.id, index)
            for _, topic in sorted(self.topics.items())
            for index in range(topic.partitions)
        ]

    # Brokers

    def start_broker(self, broker_id: int, *, leave_zombie: bool = False) -> Broker:
        """Start, or restart: the earlier registration of the id is fenced."""
        old = self.brokers.pop(broker_id, None)
        if old is not None and leave_zombie:
            self.zombies.append(old)
        elif old is not None:
            self.drop(old)
        identity = self.run(self.metadata.writers.register(BrokerId(broker_id), PROFILE))
        broker = self.brokers[broker_id] = Broker(self, identity)
        self.run(broker.writer.__aenter__())
        return broker

    def crash(self, broker_id: int) -> None:
        broker = self.brokers.pop(broker_id)
        self.drop(broker)
        self.dead.append(broker.identity)

    def drop(self, broker: Broker) -> None:
        """The process is gone: its tasks end wherever they are, nobody gets an answer."""

        async def cancel() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            own = [task for task in tasks if task in self._tasks_of(broker)]
            for task in own:
                task.cancel()
            await asyncio.gather(*own, return_exceptions=True)

        self.run(cancel())
        broker.sends.clear()

    def _tasks_of(self, broker: Broker) -> set[asyncio.Task[Any]]:
        writer = broker.writer
        uploads = {pending.upload for pending in writer._pending}
        return {*writer._tasks, *uploads, *(task for _, task in broker.sends)}

    # Producing

    def new_values(self, count: int) -> tuple[bytes, ...]:
        values = tuple(b"v%d" % (self._value + n) for n in range(count))
        self._value += count
        return values

    def send(self, broker: Broker, sent: Sent) -> None:
        """Hand a batch to a broker's open segment; nothing is answered yet."""
        model = self.models[sent.partition]
        model.sent.update(sent.values)
        batch = make_batch(
            sent.values, producer_id=sent.producer_id, epoch=sent.epoch, sequence=sent.sequence
        )
        work = broker.writer.append(sent.partition, checked(batch))
        self.run(self._start(broker, sent, work))

    async def _start(
        self, broker: Broker, sent: Sent, work: Coroutine[Any, Any, list[BatchAnswer]]
    ) -> None:
        broker.sends.append((sent, asyncio.create_task(work)))
        await asyncio.sleep(0)

    def seal(self, broker: Broker, upload: Fault = Fault.NONE) -> None:
        async def seal() -> None:
            broker.store.plan.append(upload)
            broker.writer.seal()
            await asyncio.sleep(0)

        self.run(seal())

    def settle(self, broker: Broker, commits: Sequence[Fault] = ()) -> None:
        """Let uploads and commits go on, with these faults, and record every answer."""
        broker.sequencer.plan.extend(commits)
        self.run(self.clock.advance(2.0))
        broker.sequencer.plan.clear()
        broker.store.plan.clear()
        waiting: list[tuple[Sent, asyncio.Task[list[BatchAnswer]]]] = []
        for sent, task in broker.sends:
            if task.done():
                self._record(sent, task)
            else:
                waiting.append((sent, task))
        broker.sends = waiting

    def _record(self, sent: Sent, task: asyncio.Task[list[BatchAnswer]]) -> None:
        if sent.partition not in self.models:
            task.exception()
            return
        model = self.models[sent.partition]
        error = task.exception()
        if error is not None:
            require(isinstance(error, Transient | Fenced), "OnlyRetriableErrors", error=error)
            return
        (answer,) = task.result()
        if answer.verdict in (Verdict.OUT_OF_ORDER, Verdict.STALE_EPOCH, Verdict.UNKNOWN_TOPIC):
            # A batch that was refused now may have been accepted earlier, or be so later.
            if not any(value in model.acked.values() for value in sent.values):
                model.refused.update(sent.values)
            return
        model.refused.difference_update(sent.values)
        if sent.producer_id >= 0:
            key = (sent.producer_id, sent.epoch, sent.sequence)
            first = model.first_answer.setdefault(key, answer.base_offset)
            require(first == answer.base_offset, "DedupAtomic", first=first, now=answer.base_offset)
        for delta, value in enumerate(sent.values):
            offset = answer.base_offset + delta
            require(
                model.acked.setdefault(offset, value) == value,
                "NoAckedLoss: one offset was acknowledged for two records",
                offset=offset,
                first=model.acked[offset],
                second=value,
            )

    # The table's side

    def compact(self, name: str, share: float = 1.0) -> None:
        """Move the first part of each partition's WAL into the (dictionary) table."""
        topic = self.topics[name]
        ends: dict[int, int] = {}
        for index in range(topic.partitions):
            partition = TopicPartition(topic.id, index)
            before = self.run(self.metadata.tables.ends(topic.id))[index]
            upto = before.table_end + int(share * (before.last_stable - before.table_end))
            rows = self.read_wal(partition, before.table_end, for_table=True)
            self.models[partition].table.update(
                {offset: value for offset, value in rows.items() if offset < upto}
            )
            ends[index] = upto
        self._commit += 1
        lease = self.run(self.metadata.leases.try_acquire(f"table/{topic.id}", "sim", 1.0))
        assert lease is not None
        self.run(self.metadata.tables.finish(lease, topic.id, str(self._commit), ends))

    def delete_records(self, partition: TopicPartition, share: float) -> None:
        ends = self.run(self.metadata.tables.ends(partition.topic_id))[partition.number]
        offset = ends.log_start + int(share * (ends.high_watermark - ends.log_start))
        self.run(self.metadata.retention.delete_records(partition, offset))

    def reclaim(self) -> None:
        self.run(self.reclaimer.run_once())

    # Reading

    def read_wal(
        self, partition: TopicPartition, offset: int, *, for_table: bool = False
    ) -> dict[int, bytes]:
        """Every record from `offset` on, in small reads, as a consumer would."""
        rows: dict[int, bytes] = {}
        while True:
            located = self.run(self.metadata.extents.locate(partition, offset, 1 << 30))
            now = self.clock.monotonic()
            self.handed_out.extend((now, extent) for extent in located.extents)
            try:
                result = self.run(self.reader.read(partition, offset, 200, for_table=for_table))
            except LakestreamError as error:
                raise Broken(f"NoAckedLoss: {partition} at {offset}: {error}") from error
            if not result.data:
                return rows
            data = bytes(result.data)
            for position, header in walk(data, where="read"):
                self._take(rows, data[position : position + header.size], header, offset)
            offset = result.next_offset

    def _take(self, rows: dict[int, bytes], batch: bytes, header: BatchHeader, wanted: int) -> None:
        for record in decode_records(batch, header):
            if record.offset >= wanted:
                require(record.offset not in rows, "OffsetDensity: repeated", at=record.offset)
                require(record.value is not None, "NoPhantom", at=record.offset)
                rows[record.offset] = record.value or b""

    # The checker

    def check(self) -> None:
        self.run(audit(self.metadata.database))
        self._check_references()
        for partition in self.partitions():
            self._check_partition(partition, self.models[partition])

    def _check_partition(self, partition: TopicPartition, model: PartitionModel) -> None:
        ends = self.run(self.metadata.tables.ends(partition.topic_id))[partition.number]
        require(
            ends.high_watermark >= model.high_watermark and ends.log_start >= model.log_start,
            "OffsetDensity: a border moved back",
            ends=ends,
            before=model.high_watermark,
        )
        model.high_watermark, model.log_start = ends.high_watermark, ends.log_start
        first = max(ends.log_start, ends.table_end)
        rows = self.read_wal(partition, first)
        require(
            sorted(rows) == list(range(first, ends.high_watermark)),
            "OffsetDensity",
            partition=partition,
            ends=ends,
            found=sorted(rows),
        )
        table = {offset: model.table.get(offset) for offset in range(ends.table_end)}
        for offset, value in model.acked.items():
            if offset >= ends.table_end and offset < ends.log_start:
                continue
            found = table[offset] if offset < ends.table_end else rows.get(offset)
            require(found == value, "NoAckedLoss", offset=offset, sent=value, found=found)
        readable = [*rows.values(), *(value for value in table.values() if value is not None)]
        require(set(readable) <= model.sent, "NoPhantom: never sent", found=readable)
        require(not set(rows.values()) & model.refused, "NoPhantom: refused", found=rows)
        require(len(set(readable)) == len(readable), "DedupAtomic: stored twice", found=readable)

    def _check_references(self) -> None:
        """NoOrphanReference and ReadYourLocation: nothing handed out is gone too early."""
        now = self.clock.monotonic()
        self.handed_out = [
            (at, extent) for at, extent in self.handed_out if now - at < GRACE_MS / 1000
        ]
        objects = {info.key for info in self.run(self._objects())}
        for _, extent in self.handed_out:
            require(
                segment_key(extent.segment_id) in objects,
                "ReadYourLocation",
                segment=extent.segment_id,
            )

    async def _objects(self) -> list[Any]:
        return [info async for info in self.store.list(WAL_PREFIX)]

    def check_no_garbage(self) -> None:
        """After everybody is fenced and every grace is over, only referenced segments are left."""
        for broker_id in list(self.brokers):
            self.crash(broker_id)
        for zombie in self.zombies:
            self.drop(zombie)
        self.zombies.clear()
        for identity in self.dead:
            self.run(self.metadata.writers.fence(identity))
        self.handed_out.clear()
        for _ in range(3):  # The first may evacuate: what it leaves behind has a grace of its own.
            self.run(self.clock.advance(GRACE_MS / 1000 + 1))
            self.reclaim()
        referenced = {
            extent.segment_id for partition in self.partitions() for extent in self._live(partition)
        }
        left = {parse_segment_key(info.key) for info in self.run(self._objects())}
        require(left <= referenced, "NoGarbage", left=left - referenced)
        require(referenced <= left, "NoOrphanReference", missing=referenced - left)

    def _live(self, partition: TopicPartition) -> Sequence[ExtentLocation]:
        try:
            ends = self.run(self.metadata.tables.ends(partition.topic_id))[partition.number]
            located = self.run(self.metadata.extents.locate(partition, ends.table_end, 1 << 40))
        except (UnknownTopic, NotFound):
            return ()
        return located.extents
