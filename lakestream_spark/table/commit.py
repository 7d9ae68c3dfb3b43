"""The commit protocol: lease -> intent -> append to the table -> table ends move -> Delta follows.

What always holds: the intent with exactly the files is stored before the catalog is asked; the
table ends move only after the append is known to be in the table; whoever holds the lease next
finishes or undoes what is left, so a crash anywhere costs a repetition and never a duplicate. Delta
is computed from the table afterwards: one that is late, or fails, holds nothing up.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, Protocol
from uuid import UUID, uuid4

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import LakestreamError, UnknownTopic
from lakestream_spark.core.ids import TopicId
from lakestream_spark.core.logs import event
from lakestream_spark.core.retry import Backoff, retrying
from lakestream_spark.metadata.cells import Cell
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.tables import Intent, PlannedRange, Quarantined
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend, TableState, Verdict
from lakestream_spark.table.cells import committed_cells
from lakestream_spark.table.drop import drop_table_of
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.in_step import Known, check_equal, check_not_beyond
from lakestream_spark.table.steps import Reached, Step, unobserved

DELTA: Final = "delta"
_log: Final = logging.getLogger(__name__)


class TableLedger(Protocol):
    """Intents and table ends, every write guarded by the lease."""

    async def ends(self, topic_id: TopicId) -> Known: ...

    async def intent(self, topic_id: TopicId) -> Intent | None: ...

    async def save_intent(self, lease: Lease, intent: Intent) -> None: ...

    async def finish(
        self,
        lease: Lease,
        topic_id: TopicId,
        commit_id: str,
        ends: Mapping[int, int],
        quarantined: Sequence[Quarantined] = (),
        cells: Sequence[Cell] = (),
    ) -> None: ...

    async def abandon(self, lease: Lease, topic_id: TopicId, commit_id: str) -> None: ...


def lease_name(topic_id: TopicId) -> str:
    """The one lease through which everything that changes a topic's table commits."""
    return f"table/{topic_id}"


class TableCommitter:
    """Commits files to the tables of topics whose leases the caller holds."""

    def __init__(
        self,
        ledger: TableLedger,
        catalog: StreamCatalog,
        *,
        clock: Clock,
        random: Random,
        backoff: Backoff = Backoff(),
        new_id: Callable[[], UUID] = uuid4,
        reached: Reached = unobserved,
    ) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._clock = clock
        self._random = random
        self._backoff = backoff
        self._new_id = new_id
        self._reached = reached

    async def recover(self, lease: Lease, topic: Topic) -> None:
        """Finish or undo what an earlier holder began.

        Raises `RedTable` when the table is none that we may append to.
        """
        intent = await self._ledger.intent(topic.id)
        if intent is not None:
            append = TableAppend.from_body(UUID(intent.commit_id), intent.body)
            await self._carry_out(lease, topic, append)
        else:
            known = await self._ledger.ends(topic.id)
            await asyncio.to_thread(_check, self._catalog, topic, known)
            await self._mirror(topic)

    async def commit(
        self,
        lease: Lease,
        topic: Topic,
        plan: int,
        ranges: Sequence[PlannedRange],
        files: Sequence[DataFile],
        quarantined: Sequence[Quarantined] = (),
    ) -> Verdict:
        """Move the ranges, one of each partition at most, into the table as one commit.

        `STALE` when the table is elsewhere.
        """
        self._reached(Step.FILES_WRITTEN)
        append = TableAppend(
            commit_id=self._new_id(),
            starts={planned.partition: planned.first for planned in ranges},
            ends={planned.partition: planned.next for planned in ranges},
            files=files,
            quarantined=quarantined,
        )
        intent = Intent(
            topic_id=topic.id, commit_id=str(append.commit_id), plan=plan, body=append.to_body()
        )
        await self._ledger.save_intent(lease, intent)
        self._reached(Step.INTENT_SAVED)
        return await self._carry_out(lease, topic, append)

    async def _carry_out(self, lease: Lease, topic: Topic, append: TableAppend) -> Verdict:
        verdict = await self._append_until_known(topic, append)
        if verdict is Verdict.STALE:
            await self._ledger.abandon(lease, topic.id, str(append.commit_id))
        else:
            self._reached(Step.TABLE_APPENDED)
            await self._finish(lease, topic, append)
            self._reached(Step.ENDS_MOVED)
            _tell_set_aside(topic, append.quarantined)
            await self._mirror(topic)
        return verdict

    async def _finish(self, lease: Lease, topic: Topic, append: TableAppend) -> None:
        try:
            await self._ledger.finish(
                *(lease, topic.id, str(append.commit_id)),
                *(append.ends, append.quarantined, committed_cells(append)),
            )
        except UnknownTopic:
            # Deleted while the catalog was asked: its table may be dropped already, and be ours.
            await asyncio.to_thread(drop_table_of, self._catalog, topic)
            raise

    async def _mirror(self, topic: Topic) -> None:
        """Bring Delta to where the table is; what fails now is repaired by the next commit."""
        if DELTA not in TopicConfig.of(topic.config).table_formats:
            return
        try:
            await asyncio.to_thread(_mirror, self._catalog, topic)
        except LakestreamError as error:
            event(_log, logging.WARNING, "Delta is late", topic=topic.name, error=error)
        except Exception:
            # Whatever it is: the rows are in the table, and the next commit must not wait.
            _log.exception("Delta of topic %s is late", topic.name)
        else:
            self._reached(Step.DELTA_MIRRORED)

    async def _append_until_known(self, topic: Topic, append: TableAppend) -> Verdict:
        """Each try reloads the table and looks for the commit id first: repeating is safe.

        Raises `UnknownTopic` when the topic was deleted: nothing is made for it any more.
        """
        layout = self._catalog.layout(topic.id, topic.name, topic.config)

        async def once() -> Verdict:
            # Before the table is looked at: what the store knows by now, the table must have.
            known = await self._ledger.ends(topic.id)
            return await asyncio.to_thread(self._catalog.append, layout, append, known)

        return await retrying(
            once,
            backoff=self._backoff,
            clock=self._clock,
            random=self._random,
        )


def _tell_set_aside(topic: Topic, quarantined: Sequence[Quarantined]) -> None:
    for each in quarantined:
        metrics.TABLE_QUARANTINED.of(topic.name).add()
        event(
            _log,
            logging.WARNING,
            "a batch was set aside, its offsets have no rows",
            topic=topic.name,
            partition=each.partition,
            first=each.first,
            next=each.next,
            reason=each.reason,
            path=each.path,
        )


def _check(catalog: StreamCatalog, topic: Topic, known: Known) -> None:
    """Raises `RedTable`; by the holder of the lease, who has no commit under way."""
    table = catalog.check(catalog.layout(topic.id, topic.name, topic.config), known)
    if table is not None:
        ends, snapshot_id = TableState.of(table).ends, table.metadata.current_snapshot_id
        check_not_beyond(ends, known, snapshot_id)
        check_equal(ends, known, snapshot_id)


def _mirror(catalog: StreamCatalog, topic: Topic) -> None:
    """Raises `RedTable` when the table holds what does not belong to the stream."""
    # Here and not above: most tables have no Delta log.
    from lakestream_spark.table.delta import mirror

    table = catalog.check(catalog.layout(topic.id, topic.name, topic.config))
    if table is not None:
        mirror(table, topic.id)
