"""Who may commit WAL segments: one registration per broker and profile, each with its own epoch.

What always holds: epochs come from one counter, so no two registrations share one; a registration
fences the one before it; an epoch that was fenced commits nothing more, and the last `n` it
committed is kept for ever. A dead writer is found by observing that its beat stands still.
"""

from typing import NamedTuple

from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import BrokerId, SegmentId
from lakestream_spark.metadata import counters
from lakestream_spark.metadata.database import Database, Execute, Fetch, Transaction
from lakestream_spark.wal.ports import KnownEpochs
from lakestream_spark.wal.receipt import SegmentReceipt, decode_receipt, encode_receipt
from lakestream_spark.wal.segment import WriterIdentity


class ObservedWriter(NamedTuple):
    """A registration that is not fenced; `beat` changes with every beat and every commit."""

    identity: WriterIdentity
    beat: int
    last_n: int


class Writers:
    """Registrations of WAL writers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, broker_id: BrokerId, profile: str) -> WriterIdentity:
        """A new epoch for the broker's writer of this profile; the one before it is fenced."""
        return await self._database.run(_register(broker_id, profile))

    async def beat(self, identity: WriterIdentity) -> None:
        """Show that the writer lives; raises `Fenced` when it was fenced."""
        await self._database.run(_beat(identity))

    async def fence(self, identity: WriterIdentity) -> None:
        """End an epoch: nothing of it is committed afterwards. Doing it again changes nothing."""
        await self._database.run(_fence(identity))

    async def observe(self) -> list[ObservedWriter]:
        """All registrations that are not fenced."""
        return await self._database.read(_observe())

    async def epochs(self) -> KnownEpochs:
        """Every epoch the store ever handed out, with the last `n` it committed."""
        return await self._database.read(_epochs())


def claim(segment_id: SegmentId) -> Transaction[SegmentReceipt | None]:
    """Lock the segment's writer until the end; its stored receipt if this `n` is committed already.

    Raises `Fenced` when the epoch is over or `n` is older than the newest committed one.
    """
    rows = yield Fetch(
        "SELECT fenced, last_n, CASE WHEN last_n = $3 THEN last_answer END "
        "FROM writers WHERE epoch = $1 AND broker_id = $2 FOR UPDATE",
        (segment_id.broker_epoch, segment_id.broker_id, segment_id.n),
    )
    if not rows or rows[0][0]:
        raise Fenced("the WAL writer's epoch is over", segment=segment_id)
    _, last_n, answer = rows[0]
    if segment_id.n < last_n:
        raise Fenced(
            "a newer segment of this WAL writer is committed", segment=segment_id, newest=last_n
        )
    return decode_receipt(answer)[0] if segment_id.n == last_n else None


def answered(segment_id: SegmentId, receipt: SegmentReceipt) -> Transaction[None]:
    """Store the answer of a claimed segment, so that repeating it returns the same."""
    yield Execute(
        "UPDATE writers SET last_n = $2, last_answer = $3, beat = beat + 1 WHERE epoch = $1",
        (segment_id.broker_epoch, segment_id.n, encode_receipt(receipt)),
    )


def _register(broker_id: BrokerId, profile: str) -> Transaction[WriterIdentity]:
    epoch = yield from counters.take(counters.EPOCH)
    previous = yield Fetch(
        "SELECT epoch, last_n FROM writers WHERE broker_id = $1 AND profile = $2 FOR UPDATE",
        (broker_id, profile),
    )
    for old_epoch, last_n in previous:
        yield from _remember(WriterIdentity(broker_id, old_epoch, profile), last_n)
    yield Execute(
        "INSERT INTO writers (broker_id, profile, epoch, beat, last_n, fenced) "
        "VALUES ($1, $2, $3, 0, 0, 0) ON CONFLICT (broker_id, profile) DO UPDATE SET "
        "epoch = excluded.epoch, beat = 0, last_n = 0, fenced = 0, last_answer = NULL",
        (broker_id, profile, epoch),
    )
    return WriterIdentity(broker_id, epoch, profile)


def _beat(identity: WriterIdentity) -> Transaction[None]:
    rows = yield Fetch(
        "UPDATE writers SET beat = beat + 1 WHERE epoch = $1 AND fenced = 0 RETURNING beat",
        (identity.broker_epoch,),
    )
    if not rows:
        raise Fenced("the WAL writer's epoch is over", writer=identity)


def _fence(identity: WriterIdentity) -> Transaction[None]:
    rows = yield Fetch(
        "UPDATE writers SET fenced = 1 WHERE epoch = $1 AND broker_id = $2 RETURNING last_n",
        (identity.broker_epoch, identity.broker_id),
    )
    for (last_n,) in rows:
        yield from _remember(identity, last_n)


def fence_writers_of(broker_id: int) -> Transaction[None]:
    """End every epoch of a broker that is gone."""
    rows = yield Fetch(
        "SELECT broker_id, epoch, profile FROM writers WHERE broker_id = $1 AND fenced = 0 "
        "ORDER BY epoch FOR UPDATE",
        (broker_id,),
    )
    for row in rows:
        yield from _fence(WriterIdentity(*row))


def _remember(identity: WriterIdentity, last_n: int) -> Transaction[None]:
    yield Execute(
        "INSERT INTO epochs (epoch, broker_id, profile, last_n) VALUES ($1, $2, $3, $4) "
        "ON CONFLICT (epoch) DO NOTHING",
        (identity.broker_epoch, identity.broker_id, identity.profile, last_n),
    )


def _observe() -> Transaction[list[ObservedWriter]]:
    rows = yield Fetch(
        "SELECT broker_id, epoch, profile, beat, last_n FROM writers "
        "WHERE fenced = 0 ORDER BY epoch"
    )
    return [ObservedWriter(WriterIdentity(*row[:3]), row[3], row[4]) for row in rows]


def _epochs() -> Transaction[KnownEpochs]:
    newest = yield from counters.last(counters.EPOCH)
    live = yield Fetch("SELECT epoch, last_n FROM writers")
    over = yield Fetch("SELECT epoch, last_n FROM epochs")
    return KnownEpochs(newest, {row[0]: row[1] for row in [*live, *over]})
