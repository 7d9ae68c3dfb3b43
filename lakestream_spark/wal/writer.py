"""The writer: batches of many callers -> segments -> store -> sequencer -> one answer each.

    append ─► OpenSegment ─seal─► SealedSegment ─upload─► StoredSegment ─commit─► receipt ─► answers
              (interval or size)  (several at once)       (in seal order)

What always holds
- a caller gets an offset only after its segment is stored whole and committed;
- segments are committed in seal order, so a producer's batches keep theirs;
- bytes in flight are bounded: when the store is slow, callers wait;
- when a segment fails for good no offset is used, and later batches of its idempotent producers
  that were already taken are refused as out of order, so that the client resends them in order;
- a commit whose outcome is unknown is repeated with the same identity until it is known; nothing
  later is committed before.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from types import TracebackType
from typing import Final, Self

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import (
    Fenced,
    LakestreamError,
    OutcomeUnknown,
    Transient,
    Unavailable,
)
from lakestream_spark.core.ids import SegmentId, TopicPartition
from lakestream_spark.core.retry import Backoff
from lakestream_spark.kafka.batch import CheckedBatch
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.budget import ByteBudget
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.ports import Sequencer, WriterEvents
from lakestream_spark.wal.receipt import BatchAnswer, SegmentReceipt, Verdict
from lakestream_spark.wal.segment import (
    OpenSegment,
    Place,
    SealedSegment,
    StoredSegment,
    Withdrawn,
    WriterIdentity,
)

_LOOKS: Final = 8
"""How often within `answer_within_ms` is looked for callers that have waited that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPolicy:
    """When a profile's segments are sealed, and what may be in flight."""

    max_age_ms: int = 250
    max_bytes: int = 8 * 1024 * 1024
    max_uploads: int = 4
    max_ahead: int = 4
    """Segments on their way at which the open one grows beyond its age, up to its size."""
    max_inflight_bytes: int = 64 * 1024 * 1024
    answer_within_ms: int = 30_000
    commit_backoff: Backoff = Backoff(first_s=0.02, cap_s=1.0)

    def __post_init__(self) -> None:
        bounds = (self.max_age_ms, self.max_bytes, self.max_uploads, self.max_ahead)
        if min(*bounds, self.max_inflight_bytes) < 1:
            raise ValueError("every bound of a flush policy is at least 1")


class _Unheard:
    """Events that nobody listens to."""

    def uploaded(self, profile: str, size: int, seconds: float) -> None: ...

    def committed(
        self, profile: str, ends: Mapping[TopicPartition, int], seconds: float
    ) -> None: ...

    def failed(self, profile: str, error: Exception) -> None: ...


@dataclass(slots=True, eq=False)
class _Pending:
    """A sealed segment on its way, with the callers that wait for it."""

    sealed: SealedSegment
    bytes: int
    due_at: float
    """When it was sealed, or should have been by its age."""
    receipts: tuple[SegmentReceipt, ...]
    waiters: list[tuple[Place, asyncio.Future[list[BatchAnswer]]]]
    upload: asyncio.Task[StoredSegment]
    withdrawn: set[Withdrawn]


class WalWriter:
    """One registration of a broker for one profile; use as `async with`."""

    def __init__(
        self,
        identity: WriterIdentity,
        policy: FlushPolicy,
        *,
        store: ObjectStore,
        sequencer: Sequencer,
        cache: WalCache,
        clock: Clock,
        events: WriterEvents | None = None,
    ) -> None:
        self._identity = identity
        self._policy = policy
        self._store = store
        self._sequencer = sequencer
        self._cache = cache
        self._clock = clock
        self._events = events or _Unheard()
        # Jitter differs between writers and is the same in a replayed simulation.
        self._random = Random(identity.broker_epoch)
        self._budget = ByteBudget(policy.max_inflight_bytes)
        self._upload_slots = asyncio.Semaphore(policy.max_uploads)
        self._open = OpenSegment()
        self._waiters: list[tuple[Place, asyncio.Future[list[BatchAnswer]]]] = []
        self._receipts: list[SegmentReceipt] = []
        self._pending: deque[_Pending] = deque()
        self._n = 0
        self._due_at = 0.0
        self._first_batch = asyncio.Event()
        self._sealed = asyncio.Event()
        self._settled = asyncio.Event()
        self._stopped: LakestreamError | None = None
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def identity(self) -> WriterIdentity:
        return self._identity

    @property
    def inflight_bytes(self) -> int:
        """Bytes taken from callers whose fate is not known yet."""
        return self._budget.used

    @property
    def queued_segments(self) -> int:
        """Segments sealed and not settled yet."""
        return len(self._pending)

    async def __aenter__(self) -> Self:
        name = f"wal-{self._identity.profile}"
        self._tasks = [
            asyncio.create_task(self._seal_by_age(), name=f"{name}-sealer"),
            asyncio.create_task(self._answer_in_time(), name=f"{name}-answerer"),
            asyncio.create_task(self._settle_in_order(), name=f"{name}-committer"),
        ]
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def append(
        self, partition: TopicPartition, batches: list[CheckedBatch]
    ) -> list[BatchAnswer]:
        """One answer per batch, after the commit; raises `Transient` or `Fenced` without an offset.

        `OutcomeUnknown` means that the batches may have been committed all the same.
        """
        size = sum(len(batch.data) for batch in batches)
        self._check_accepting()
        if not self._budget.try_acquire(size):
            await self._budget.acquire(size, within_s=self._policy.answer_within_ms / 1000)
            if self._stopped or self._closing:
                self._budget.release(size)
                self._check_accepting()
        if not self._waiters:
            self._due_at = self._clock.monotonic() + self._policy.max_age_ms / 1000
            self._first_batch.set()
        place = self._open.add(partition, batches)
        answer: asyncio.Future[list[BatchAnswer]] = asyncio.get_running_loop().create_future()
        self._waiters.append((place, answer))
        if self._open.bytes >= self._policy.max_bytes:
            self.seal()
        return await answer

    def seal(self) -> None:
        """Close the open segment and start its upload; nothing happens without records."""
        if not self._waiters:
            return
        self._n += 1
        segment_id = SegmentId(self._identity.broker_id, self._identity.broker_epoch, self._n)
        receipts, self._receipts = tuple(self._receipts), []
        opened, self._open = self._open, OpenSegment()
        waiters, self._waiters = self._waiters, []
        self._first_batch.clear()
        sealed = opened.seal(
            segment_id,
            self._identity.profile,
            created_ms=self._clock.wall_ms(),
            receipts=receipts,
        )
        pending = _Pending(
            sealed=sealed,
            bytes=opened.bytes,
            due_at=min(self._clock.monotonic(), self._due_at),
            receipts=receipts,
            waiters=waiters,
            upload=asyncio.create_task(self._upload(sealed), name=f"wal-upload-{segment_id}"),
            withdrawn=set(),
        )
        self._pending.append(pending)
        self._sealed.set()

    async def close(self) -> None:
        """Seal, settle and answer everything that was taken; take nothing more."""
        self._closing = True
        self.seal()
        self._sealed.set()
        *timers, committer = self._tasks
        await committer
        for timer in timers:
            timer.cancel()
        await asyncio.gather(*timers, return_exceptions=True)

    def _check_accepting(self) -> None:
        if self._stopped is not None:
            raise self._stopped.again()
        if self._closing:
            raise Unavailable("this writer is closing: send to another broker")

    async def _seal_by_age(self) -> None:
        while True:
            await self._first_batch.wait()
            left_s = self._due_at - self._clock.monotonic()
            if left_s > 0:
                await self._clock.sleep(left_s)
            elif len(self._pending) >= self._policy.max_ahead:
                # Commits are one after the other: one more segment would only wait for its turn.
                self._settled.clear()
                await self._settled.wait()
            else:
                self.seal()

    async def _upload(self, sealed: SealedSegment) -> StoredSegment:
        async with self._upload_slots:
            began = self._clock.monotonic()
            await self._store.put(segment_key(sealed.id), sealed.data)
            took_s = self._clock.monotonic() - began
        self._events.uploaded(self._identity.profile, len(sealed.data), took_s)
        return sealed.stored()

    # One committer task: offsets must follow seal order.
    async def _settle_in_order(self) -> None:
        while True:
            while self._pending:
                pending = self._pending[0]
                try:
                    await self._settle(pending)
                finally:
                    self._pending.popleft()
                    self._settled.set()
                    self._budget.release(pending.bytes)
            if self._closing:
                return
            self._sealed.clear()
            await self._sealed.wait()

    async def _settle(self, pending: _Pending) -> None:
        if self._stopped is not None:
            pending.upload.cancel()
            await asyncio.gather(pending.upload, return_exceptions=True)
            _fail(pending, self._stopped)
            return
        try:
            stored = await pending.upload
        except Exception as error:
            self._give_up(pending, error)
            return
        began = self._clock.monotonic()
        try:
            receipt = await self._commit(replace(stored, withdrawn=frozenset(pending.withdrawn)))
        except Exception as error:
            # Not transient: the epoch is over, or the sequencer is broken. Nothing may follow.
            self._stop(pending, error)
            return
        self._receipts.append(receipt)
        self._cache.put_segment(stored.id, pending.sealed.data)
        ends = _answer(pending, receipt)
        self._events.committed(self._identity.profile, ends, self._clock.monotonic() - began)

    async def _commit(self, stored: StoredSegment) -> SegmentReceipt:
        attempt = 0
        while True:
            try:
                return await self._sequencer.commit(stored)
            except Transient as error:
                self._answer_overdue(error)
                await self._clock.sleep(self._policy.commit_backoff.wait_s(attempt, self._random))
                attempt += 1

    async def _answer_in_time(self) -> None:
        """A store may hang instead of failing: nobody hears from it then but this clock."""
        while True:
            look_s = self._policy.answer_within_ms / 1000 / _LOOKS
            await self._clock.sleep(look_s)
            if self._clock.monotonic() - self._due_at >= look_s:
                self.seal()  # Those before it hang: its callers have a clock as well.
            self._answer_overdue("the store has not answered")

    def _answer_overdue(self, reason: object) -> None:
        """Callers do not wait for ever; their segments still do, and keep their bytes."""
        oldest = self._clock.monotonic() - self._policy.answer_within_ms / 1000
        for pending in self._pending:
            if pending.due_at <= oldest:
                _fail(
                    pending,
                    OutcomeUnknown(
                        f"the commit was not confirmed in time: {reason}", segment=pending.sealed.id
                    ),
                )

    def _give_up(self, pending: _Pending, error: Exception) -> None:
        """The upload failed for good: no offset is used, later batches of its producers go back."""
        self._events.failed(self._identity.profile, error)
        # Seal first: what the client resends after this answer must land in a new segment.
        self.seal()
        self._receipts[:0] = pending.receipts
        failed = {
            Withdrawn(extent.partition, header.producer_id)
            for extent in pending.sealed.extents
            for header in extent.batches
            if header.producer_id >= 0
        }
        failed |= pending.withdrawn
        for later in self._pending:
            if later is not pending:
                later.withdrawn |= failed
        known = error if isinstance(error, LakestreamError) else None
        _fail(
            pending,
            Unavailable(
                f"the WAL segment could not be stored: {known or repr(error)}",
                segment=pending.sealed.id,
            ),
        )

    def _stop(self, pending: _Pending, error: Exception) -> None:
        self._events.failed(self._identity.profile, error)
        if isinstance(error, Fenced):
            self._stopped = error
        else:
            self._stopped = Unavailable(f"the writer stopped after an unexpected error: {error!r}")
        _fail(
            pending,
            error
            if isinstance(error, Fenced)
            else OutcomeUnknown(f"the commit failed: {error!r}", segment=pending.sealed.id),
        )
        waiters, self._waiters = self._waiters, []
        self._first_batch.clear()
        self._budget.release(self._open.bytes)
        self._open = OpenSegment()
        for _, answer in waiters:
            if not answer.done():
                answer.set_exception(self._stopped.again())


def _answer(pending: _Pending, receipt: SegmentReceipt) -> dict[TopicPartition, int]:
    """Give every caller its answers; the high watermarks of the partitions that grew."""
    answers: dict[TopicPartition, list[BatchAnswer]] = {}
    ends: dict[TopicPartition, int] = {}
    for extent, own in zip(pending.sealed.extents, receipt.extents, strict=True):
        offsets = [header.offsets for header in extent.batches]
        given = answers[extent.partition] = own.answers(offsets)
        for answer, taken in zip(given, offsets, strict=True):
            if answer.verdict is Verdict.ACCEPTED:
                ends[extent.partition] = answer.base_offset + taken
    for place, waiter in pending.waiters:
        if not waiter.done():
            waiter.set_result(answers[place.partition][place.first : place.end])
    return ends


def _fail(pending: _Pending, error: LakestreamError) -> None:
    for _, answer in pending.waiters:
        if not answer.done():
            answer.set_exception(error.again())
