"""Offsets for the batches of a WAL segment: one transaction per segment.

    claim the writer's row -> lock partitions -> load producers -> decide -> index, states, answer

What always holds: the sequence check and the offset assignment are one transaction; partitions are
locked in id order by one statement before anything of them is read; a segment is committed once,
and repeating it returns the stored answer. A partition that is gone refuses its own batches only.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Rejected
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.database import (
    BIGINT,
    BYTES,
    INT,
    Database,
    FetchMany,
    InsertMany,
    Notify,
    Row,
    Transaction,
    UpdateMany,
)
from lakestream_spark.metadata.decide import Decision, PartitionState, decide, refuse
from lakestream_spark.metadata.known_producers import KnownProducers
from lakestream_spark.metadata.partitions import PartitionIds, lock_partitions
from lakestream_spark.metadata.producer_state import ProducerState
from lakestream_spark.metadata.references import References, insert_extents, insert_segment
from lakestream_spark.metadata.writers import answered, claim
from lakestream_spark.wal.receipt import ExtentReceipt, SegmentReceipt, Verdict
from lakestream_spark.wal.segment import StoredSegment

_PARTITION = {"id": BIGINT, "next_offset": BIGINT, "first_unstable": BIGINT}
_PRODUCER_KEY = {"partition_id": BIGINT, "producer_id": BIGINT}
_PRODUCER = {**_PRODUCER_KEY, "last_ms": BIGINT, "epoch": INT, "batches": BYTES}


class SqlSequencer:
    """The WAL's `Sequencer` port on a `Database`."""

    def __init__(self, database: Database, ids: PartitionIds, clock: Clock) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._known = KnownProducers()

    async def commit(self, segment: StoredSegment) -> SegmentReceipt:
        work = _Work(segment, self._ids, self._known)
        receipt = await self._database.run(work.commit(self._clock.wall_ms()))
        work.remember()
        return receipt


class _Work:
    """One commit: the locked state of the segment's partitions, and what is decided of them."""

    def __init__(self, segment: StoredSegment, ids: PartitionIds, known: KnownProducers) -> None:
        self._segment = segment
        self._ids = ids
        self._known = known
        self._rows: list[int | None] = []
        self._partitions: dict[int | None, PartitionState] = {}
        self._producers: dict[int, Mapping[int, ProducerState]] = {}
        self._decisions: list[tuple[int, Decision]] = []

    def commit(self, now_ms: int) -> Transaction[SegmentReceipt]:
        segment = self._segment
        receipt = yield from claim(segment.id)
        if receipt is not None:
            return receipt
        self._rows = yield from self._ids.of([extent.partition for extent in segment.extents])
        yield from self._lock()
        yield from self._load_producers()
        receipt = SegmentReceipt(segment.id.n, tuple(self._decide()))
        yield from self._store(now_ms)
        yield from answered(segment.id, receipt)
        yield Notify()
        return receipt

    def remember(self) -> None:
        """After the commit: keep what it proved for the next one."""
        for row_id, decision in self._decisions:
            moved = (self._partitions[row_id][0], decision.partition[0])
            if moved[0] != moved[1]:
                self._known.remember(row_id, moved, self._producers[row_id], decision.producers)
        pairs = zip(self._segment.extents, self._rows, strict=False)
        self._ids.drop([extent.partition for extent, row in pairs if row not in self._partitions])

    def _lock(self) -> Transaction[None]:
        wanted = sorted(row_id for row_id in self._rows if row_id is not None)
        if len(set(wanted)) != len(wanted):
            raise Rejected("a segment has one extent per partition", segment=self._segment.id)
        rows = yield from lock_partitions(wanted)
        self._partitions = {row[0]: (row[1], row[2]) for row in rows}

    def _load_producers(self) -> Transaction[None]:
        unknown: set[tuple[int, int]] = set()
        for extent, row_id in zip(self._segment.extents, self._rows, strict=True):
            state = self._partitions.get(row_id)
            if row_id is None or state is None:
                continue
            known = self._producers[row_id] = self._known.of(row_id, state[0])
            for header in extent.batches:
                if header.producer_id >= 0 and header.producer_id not in known:
                    unknown.add((row_id, header.producer_id))
        # A statement after the locks: at READ COMMITTED its snapshot must be younger than they.
        rows = yield FetchMany(
            "SELECT p.partition_id, p.producer_id, p.epoch, p.batches FROM producers p "
            "WHERE p.partition_id = r.partition_id AND p.producer_id = r.producer_id",
            _PRODUCER_KEY,
            sorted(unknown),
        )
        for row_id, producer_id, epoch, batches in rows:
            loaded: Mapping[int, ProducerState] = {producer_id: (epoch, batches)}
            self._producers[row_id] = {**self._producers[row_id], **loaded}

    def _decide(self) -> Iterator[ExtentReceipt]:
        """One answer per extent."""
        withdrawn = _withdrawn(self._segment)
        for extent, row_id in zip(self._segment.extents, self._rows, strict=True):
            state = self._partitions.get(row_id)
            if row_id is None or state is None:
                yield refuse(extent, Verdict.UNKNOWN_TOPIC)
                continue
            refused = withdrawn.get(extent.partition, ()) if withdrawn else ()
            decision = decide(extent, state, self._producers[row_id], refused)
            self._decisions.append((row_id, decision))
            yield decision.receipt

    def _store(self, now_ms: int) -> Transaction[None]:
        taken = [pair for pair in self._decisions if pair[1].runs]
        taken.sort(key=itemgetter(0))  # rows that are neighbours in the tables are written together
        runs = [(row_id, run) for row_id, decision in taken for run in decision.runs]
        live = References(len(runs), sum(run.length for _, run in runs))
        segment_row = yield from insert_segment(self._segment, live, now_ms)
        moved: list[Row] = [(row_id, *decision.partition) for row_id, decision in taken]
        yield UpdateMany("partitions", ("id",), _PARTITION, moved)
        yield from insert_extents(segment_row, runs)
        yield from _store_producers(taken, now_ms)


def _store_producers(taken: list[tuple[int, Decision]], now_ms: int) -> Transaction[None]:
    rows: list[Row] = [
        (row_id, producer_id, now_ms, *state)
        for row_id, decision in taken
        for producer_id, state in decision.producers.items()
    ]
    yield InsertMany(
        "producers",
        _PRODUCER,
        rows,
        "(partition_id, producer_id) DO UPDATE SET "
        "last_ms = excluded.last_ms, epoch = excluded.epoch, batches = excluded.batches",
    )


def _withdrawn(segment: StoredSegment) -> dict[TopicPartition, set[int]]:
    found: dict[TopicPartition, set[int]] = {}
    for partition, producer_id in segment.withdrawn:
        found.setdefault(partition, set()).add(producer_id)
    return found
