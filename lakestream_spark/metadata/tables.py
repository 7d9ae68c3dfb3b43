"""The table's side of the log: table ends, plans and commit intents.

What always holds: a table end never moves back and never passes the last stable offset; all ends
of a commit move in one transaction, and an intent outlives the extents below them, so that whoever
holds the lease next can finish what was begun; every write under a lease is guarded by it; a topic
has at most one intent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Corrupt, Rejected, UnknownTopic
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import counters
from lakestream_spark.metadata.cells import Cell, add_cells
from lakestream_spark.metadata.database import (
    BIGINT,
    INT,
    TEXT,
    Database,
    Execute,
    Fetch,
    InsertMany,
    Row,
    Rows,
    Transaction,
    UpdateMany,
)
from lakestream_spark.metadata.leases import Lease, guard
from lakestream_spark.metadata.partitions import ENDS, lock_partitions, lock_partitions_of
from lakestream_spark.metadata.references import Portion, forget_extents, portions
from lakestream_spark.wal.ports import PartitionEnds

_TABLE_END: Final = {"id": BIGINT, "table_end": BIGINT}
_ASIDE: Final = {
    "topic_id": TEXT,
    "partition_index": INT,
    "base_offset": BIGINT,
    "next_offset": BIGINT,
    "path": TEXT,
    "reason": TEXT,
    "since_ms": BIGINT,
}
_KNOWN_ASIDE: Final = "(topic_id, partition_index, base_offset) DO NOTHING"


class PlannedRange(NamedTuple):
    """Offsets [first, next) of a partition."""

    partition: int
    first: int
    next: int


class Quarantined(NamedTuple):
    """A batch whose content contradicts its header: its offsets [first, next) have no rows, its
    bytes are kept at `path`."""

    partition: int
    first: int
    next: int
    path: str
    reason: str


class Move(NamedTuple):
    """What a finished commit changes: table ends, the batches it set aside, and the cells."""

    topic_id: TopicId
    ends: Mapping[int, int]
    quarantined: Sequence[Quarantined]
    cells: Sequence[Cell] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one micro-batch moves into the tables."""

    number: int
    created_ms: int
    ranges: Mapping[TopicId, Sequence[PlannedRange]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A table commit about to be made; `body` is the table's own and must be JSON."""

    topic_id: TopicId
    commit_id: str
    plan: int
    body: Mapping[str, Any]


class Tables:
    """Table ends, plans and intents."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def ends(self, topic_id: TopicId) -> dict[int, PartitionEnds]:
        """The borders of every partition of a topic; raises `UnknownTopic`."""
        return await self._database.read(_ends(topic_id))

    async def have_rows(self) -> bool:
        """Whether any topic has offsets in a table."""
        return await self._database.read(_have_rows())

    async def create_plan(
        self, ranges: Mapping[TopicId, Sequence[PlannedRange]], *, job: str = ""
    ) -> int:
        """Store a plan for a job; its number is above that of every plan before it."""
        return await self._database.run(_create_plan(ranges, job, self._clock.wall_ms()))

    async def plan(self, number: int) -> Plan | None:
        return await self._database.read(_plan("WHERE number = $1", (number,)))

    async def latest_plan(self, *, job: str = "") -> Plan | None:
        """The newest plan of a job."""
        newest = _plan("WHERE job = $1 ORDER BY number DESC LIMIT 1", (job,))
        return await self._database.read(newest)

    async def prune_plans(self, below: int, *, job: str = "") -> None:
        """Drop a job's plans with a smaller number; numbers are not used again."""
        await self._database.run(_prune(below, job))

    async def save_intent(self, lease: Lease, intent: Intent) -> None:
        """Store or replace the intent; raises `Rejected` while another commit's is there."""
        await self._database.run(_save_intent(lease, intent))

    async def intent(self, topic_id: TopicId) -> Intent | None:
        return await self._database.read(_intent(topic_id))

    async def finish(
        self,
        lease: Lease,
        topic_id: TopicId,
        commit_id: str,
        ends: Mapping[int, int],
        quarantined: Sequence[Quarantined] = (),
        cells: Sequence[Cell] = (),
    ) -> None:
        """The commit is in the table: move the table ends, forget the extents, then the intent.

        Repeating it is safe. Many extents are forgotten in several transactions, so that no commit
        waits long. Raises `Corrupt` when an end would move back or pass the last stable offset:
        then the table and the log do not belong together.
        """
        now_ms = self._clock.wall_ms()
        first, *others = await self._database.read(_portions(topic_id, ends))
        move = Move(topic_id, ends, quarantined, cells)
        moving = _finish(lease, move, first, now_ms)
        await self._database.run(moving if others else _last(moving, topic_id, commit_id))
        for number, portion in enumerate(others, 1):
            forgetting = _forget(lease, portion, now_ms)
            is_last = number == len(others)
            await self._database.run(
                _last(forgetting, topic_id, commit_id) if is_last else forgetting
            )

    async def quarantined(self, topic_id: TopicId) -> list[Quarantined]:
        """The batches of a topic that were set aside, in offset order."""
        return await self._database.read(_quarantined(topic_id))

    async def abandon(self, lease: Lease, topic_id: TopicId, commit_id: str) -> None:
        """Forget an intent whose commit will never be made."""
        await self._database.run(_abandon(lease, topic_id, commit_id))


def _have_rows() -> Transaction[bool]:
    rows = yield Fetch("SELECT 1 FROM partitions WHERE table_end > 0 LIMIT 1", ())
    return bool(rows)


def _ends(topic_id: TopicId) -> Transaction[dict[int, PartitionEnds]]:
    rows = yield Fetch(
        f"SELECT partition_index, {ENDS} FROM partitions WHERE topic_id = $1 "
        "ORDER BY partition_index",
        (str(topic_id),),
    )
    if not rows:
        raise UnknownTopic("no such topic", topic=topic_id)
    return {row[0]: PartitionEnds(*row[1:]) for row in rows}


def _create_plan(
    ranges: Mapping[TopicId, Sequence[PlannedRange]], job: str, now_ms: int
) -> Transaction[int]:
    number = yield from counters.take(counters.PLAN)
    body = json.dumps({str(topic_id): own for topic_id, own in ranges.items()})
    yield Execute(
        "INSERT INTO plans (number, created_ms, body, job) VALUES ($1, $2, $3, $4)",
        (number, now_ms, body, job),
    )
    return number


def _plan(condition: str, args: tuple[int | str, ...]) -> Transaction[Plan | None]:
    rows = yield Fetch(f"SELECT number, created_ms, body FROM plans {condition}", args)
    if not rows:
        return None
    number, created_ms, body = rows[0]
    ranges = {
        TopicId(UUID(topic_id)): tuple(PlannedRange(*planned) for planned in own)
        for topic_id, own in json.loads(body).items()
    }
    return Plan(number=number, created_ms=created_ms, ranges=ranges)


def _prune(below: int, job: str) -> Transaction[None]:
    yield Execute("DELETE FROM plans WHERE number < $1 AND job = $2", (below, job))


def _save_intent(lease: Lease, intent: Intent) -> Transaction[None]:
    yield from guard(lease)
    topic = str(intent.topic_id)
    live = yield Fetch(
        "SELECT id FROM topics WHERE id = $1 AND deleted_ms IS NULL FOR SHARE", (topic,)
    )
    if not live:
        raise UnknownTopic("no such topic", topic=topic)
    saved = yield Fetch(
        "INSERT INTO intents (topic_id, commit_id, plan, lease_name, lease_epoch, body) "
        "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (topic_id) DO UPDATE SET "
        "plan = excluded.plan, lease_name = excluded.lease_name, "
        "lease_epoch = excluded.lease_epoch, body = excluded.body "
        "WHERE intents.commit_id = excluded.commit_id RETURNING commit_id",
        (
            topic,
            intent.commit_id,
            intent.plan,
            lease.name,
            lease.epoch,
            json.dumps(intent.body),
        ),
    )
    if not saved:
        raise Rejected("finish or abandon the topic's other commit first", topic=topic)


def _intent(topic_id: TopicId) -> Transaction[Intent | None]:
    rows = yield Fetch(
        "SELECT commit_id, plan, body FROM intents WHERE topic_id = $1", (str(topic_id),)
    )
    if not rows:
        return None
    commit_id, plan, body = rows[0]
    return Intent(topic_id=topic_id, commit_id=commit_id, plan=plan, body=json.loads(body))


def _portions(topic_id: TopicId, ends: Mapping[int, int]) -> Transaction[list[Portion]]:
    """What a commit forgets; looked up before the locks, because below an end nothing is added."""
    rows = yield Fetch(
        "SELECT id, partition_index FROM partitions WHERE topic_id = $1 ORDER BY id",
        (str(topic_id),),
    )
    found = yield from portions([(row_id, ends[index]) for row_id, index in rows if index in ends])
    return found


def _finish(lease: Lease, move: Move, portion: Portion, now_ms: int) -> Transaction[None]:
    yield from guard(lease)
    rows = yield from lock_partitions_of(move.topic_id)
    moves = _moves(move.topic_id, rows, move.ends)
    yield UpdateMany("partitions", ("id",), _TABLE_END, moves)
    if move.quarantined:
        aside = [(str(move.topic_id), *each, now_ms) for each in move.quarantined]
        yield InsertMany("quarantine", _ASIDE, aside, _KNOWN_ASIDE)
    # Repeated, the ends are where the cells end already.
    before = {row[1]: PartitionEnds(*row[2:]).table_end for row in rows}
    new = [cell for cell in move.cells if cell.first >= before[cell.partition]]
    if new:
        yield from add_cells(move.topic_id, new)
    yield from forget_extents(portion, now_ms)


def _forget(lease: Lease, portion: Portion, now_ms: int) -> Transaction[None]:
    yield from guard(lease)
    rows = yield from lock_partitions([row_id for row_id, _ in portion])
    # What a topic that was deleted meanwhile left behind is not ours to forget.
    locked = {row[0] for row in rows}
    yield from forget_extents([each for each in portion if each[0] in locked], now_ms)


def _last(step: Transaction[None], topic_id: TopicId, commit_id: str) -> Transaction[None]:
    yield from step
    yield from _forget_intent(topic_id, commit_id)


def _moves(topic_id: TopicId, rows: Rows, ends: Mapping[int, int]) -> list[tuple[int, int]]:
    """Row id and new table end of each partition whose table end moves."""
    partitions: dict[int, Row] = {row[1]: row for row in rows}
    unknown = sorted(set(ends) - set(partitions))
    if unknown or not rows:
        raise UnknownTopic("no such topic or partition", topic=topic_id, partitions=unknown)
    moves: list[tuple[int, int]] = []
    for index, end in sorted(ends.items()):
        row_id, _, *borders = partitions[index]
        now = PartitionEnds(*borders)
        if not now.table_end <= end <= now.last_stable:
            raise Corrupt(
                "the table end can only move forward, up to the last stable offset",
                topic=topic_id,
                partition=index,
                table_end=now.table_end,
                last_stable=now.last_stable,
                asked_for=end,
            )
        if end > now.table_end:
            moves.append((row_id, end))
    return moves


def _quarantined(topic_id: TopicId) -> Transaction[list[Quarantined]]:
    rows = yield Fetch(
        "SELECT partition_index, base_offset, next_offset, path, reason FROM quarantine "
        "WHERE topic_id = $1 ORDER BY partition_index, base_offset",
        (str(topic_id),),
    )
    return [Quarantined(*row) for row in rows]


def _abandon(lease: Lease, topic_id: TopicId, commit_id: str) -> Transaction[None]:
    yield from guard(lease)
    yield from _forget_intent(topic_id, commit_id)


def _forget_intent(topic_id: TopicId, commit_id: str) -> Transaction[None]:
    yield Execute(
        "DELETE FROM intents WHERE topic_id = $1 AND commit_id = $2", (str(topic_id), commit_id)
    )
