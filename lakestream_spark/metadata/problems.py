"""What stops a topic's way into its table, until somebody mends it.

What always holds: a problem is reported and cleared under a lease of whoever looked at the table,
its committer or its maintainer, so that one who was replaced says nothing more; the whole table has
at most one, and so has each partition; the first report keeps its time.
"""

from typing import Final, NamedTuple, Self
from uuid import UUID

from lakestream_spark.core.errors import RedTable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.database import Database, Execute, Fetch, Row, Transaction
from lakestream_spark.metadata.leases import Lease, guard

_COLUMNS: Final = "topic_id, partition_index, at_offset, snapshot_id, sentence, remedy, since_ms"
_WHOLE_TABLE: Final = -1


class Problem(NamedTuple):
    """A sentence that says what is wrong, where, and what mends it.

    Without a partition the whole table is stopped: the topic is red.
    """

    topic_id: TopicId
    partition: int | None
    sentence: str
    remedy: str
    since_ms: int
    offset: int | None = None
    snapshot_id: int | None = None

    @classmethod
    def of_table(cls, topic_id: TopicId, red: RedTable, since_ms: int) -> Self:
        """That the whole table is red."""
        snapshot_id = red.facts.get("snapshot_id")
        return cls(
            topic_id=topic_id,
            partition=None,
            sentence=str(red),
            remedy=str(red.facts.get("remedy", "")),
            since_ms=since_ms,
            snapshot_id=snapshot_id if isinstance(snapshot_id, int) else None,
        )


class Problems:
    """The list of problems."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, topic_id: TopicId | None = None) -> list[Problem]:
        """All of them, or those of one topic."""
        return await self._database.read(_list(topic_id))

    async def report(self, lease: Lease, problem: Problem) -> None:
        """Add the problem, or put it in place of the one its partition or table has."""
        await self._database.run(_report(lease, problem))

    async def clear(self, lease: Lease, topic_id: TopicId, partition: int | None = None) -> None:
        """Forget the problem of a partition, or of the whole table."""
        await self._database.run(_clear(lease, topic_id, partition))


def _list(topic_id: TopicId | None) -> Transaction[list[Problem]]:
    condition = "" if topic_id is None else "WHERE topic_id = $1 "
    args = () if topic_id is None else (str(topic_id),)
    rows = yield Fetch(
        f"SELECT {_COLUMNS} FROM problems {condition}ORDER BY topic_id, partition_index", args
    )
    return [_problem(row) for row in rows]


def _problem(row: Row) -> Problem:
    topic_id, partition, offset, snapshot_id, sentence, remedy, since_ms = row
    return Problem(
        topic_id=TopicId(UUID(topic_id)),
        partition=None if partition == _WHOLE_TABLE else partition,
        offset=offset,
        snapshot_id=snapshot_id,
        sentence=sentence,
        remedy=remedy,
        since_ms=since_ms,
    )


def _row_index(partition: int | None) -> int:
    return _WHOLE_TABLE if partition is None else partition


def _report(lease: Lease, problem: Problem) -> Transaction[None]:
    yield from guard(lease)
    yield Execute(
        f"INSERT INTO problems ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7) "
        "ON CONFLICT (topic_id, partition_index) DO UPDATE SET "
        "at_offset = excluded.at_offset, snapshot_id = excluded.snapshot_id, "
        "sentence = excluded.sentence, remedy = excluded.remedy",
        (
            *(str(problem.topic_id), _row_index(problem.partition), problem.offset),
            *(problem.snapshot_id, problem.sentence, problem.remedy, problem.since_ms),
        ),
    )


def _clear(lease: Lease, topic_id: TopicId, partition: int | None) -> Transaction[None]:
    yield from guard(lease)
    yield Execute(
        "DELETE FROM problems WHERE topic_id = $1 AND partition_index = $2",
        (str(topic_id), _row_index(partition)),
    )
