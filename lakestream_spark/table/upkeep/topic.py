"""The upkeep of one topic's table, step by step.

What always holds: every step starts from the newest metadata and is a commit of its own, so that
another one's commit between two steps harms nothing; a step that fails is logged and the next one
is tried, but for a lost lease and a red table, which end the work on the topic.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from uuid import UUID

from pyiceberg.table import Table

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Corrupt, Fenced, LakestreamError, RedTable, Unavailable
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.core.logs import event
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topic_config.values import KEEP
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend, TableState
from lakestream_spark.table.delta import MirrorResult, Outcome, mirror
from lakestream_spark.table.delta_changes import live_files
from lakestream_spark.table.delta_files import MirroredFile
from lakestream_spark.table.erasures import new_changes, rolled_back
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.outage import asking
from lakestream_spark.table.upkeep import delta_care, orphans, retention, small_files, snapshots
from lakestream_spark.table.upkeep.folder import TableFolder
from lakestream_spark.table.upkeep.on_disk import sync_changes
from lakestream_spark.table.upkeep.policy import UpkeepPolicy
from lakestream_spark.table.upkeep.ports import ChangeLedger, Intents, LogStarts, Rewriter
from lakestream_spark.table.upkeep.references import referenced

_TRIES: Final = 20
_NEVER_ALONE: Final = "others committed to the table at each try; the next round tries again"
_log: Final = logging.getLogger(__name__)

T = TypeVar("T")
Still = Callable[[], Awaitable[None]]
"""Raises `Fenced` when the work is somebody else's by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What upkeep works with, the same for all topics."""

    catalog: StreamCatalog
    rewriter: Rewriter
    intents: Intents
    cells: ChangeLedger
    log_starts: LogStarts
    clock: Clock
    policy: UpkeepPolicy = field(default_factory=UpkeepPolicy)


class TopicUpkeep:
    """One round of upkeep for one topic; `done` counts what happened."""

    def __init__(self, topic: Topic, tools: Tools, still: Still, *, is_seldom: bool) -> None:
        self._topic = topic
        self._config = TopicConfig.of(topic.config)
        self._tools = tools
        self._still = still
        self._is_seldom = is_seldom
        self._layout = tools.catalog.layout(topic.id, topic.name, topic.config)
        self.done: dict[str, int] = {}
        self.failed: dict[str, LakestreamError] = {}

    async def run(self) -> None:
        """All steps that it is time for."""
        # First what the store knows: by then the table must have it.
        known = await self._tools.intents.ends(self._topic.id)
        if await asyncio.to_thread(self._tools.catalog.check, self._layout, known) is None:
            return
        steps: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("snapshots", self._snapshots),
            ("mirror", self._mirror),
            ("retention", self._retention),
            ("merge", self._merge),
            ("manifests", self._manifests),
            ("mirror again", self._mirror),
            ("delta log", self._delta_log),
        ]
        if self._is_seldom:
            steps.append(("orphans", self._orphans))
        for name, step in steps:
            await self._still()
            try:
                with asking(self._layout.identifier):
                    await step()
            except (Fenced, RedTable):
                raise
            except LakestreamError as error:
                self.failed[name] = error
                event(_log, logging.WARNING, "a step of upkeep failed", **self._named(name, error))

    async def _snapshots(self) -> None:
        policy = self._tools.policy.snapshots
        keep_from = await self._take_down_changes()

        def work() -> snapshots.SnapshotChanges:
            for _ in range(_TRIES):
                table = self._table()
                changes = snapshots.changes_of(table, self._tools.clock.wall_ms(), policy)
                changes = snapshots.without_expiry(table, changes, keep_from)
                if not changes or snapshots.apply(table, changes):
                    return changes
            raise Unavailable(_NEVER_ALONE)

        changes = await asyncio.to_thread(work)
        self._count("expired snapshots", len(changes.expired))
        self._count("tags", len(changes.tags))

    async def _take_down_changes(self) -> int:
        """What others did to rows, while it can be read; from which snapshot on all must stay."""
        table = await asyncio.to_thread(self._table)
        # In this order: a commit that is in the table is in the intent, or in the ledger.
        intent = await self._tools.intents.intent(self._topic.id)
        ledger = await self._tools.cells.ledger(self._topic.id)
        for change in rolled_back(table, ledger.changes):
            await self._tools.cells.forget(self._topic.id, change.snapshot_id)
        found = await asyncio.to_thread(new_changes, table, ledger, in_flight=intent is not None)
        for change in found.changes:
            await self._tools.cells.record(self._topic.id, change)
        self._count("changes by others", len(found.changes))
        if found.keep_from is not None:
            return found.keep_from
        snapshot = table.current_snapshot()
        return 0 if snapshot is None else snapshot.sequence_number or 0

    async def _mirror(self) -> None:
        if "delta" not in self._config.table_formats:
            return
        result = await asyncio.to_thread(self._mirror_now)
        if result.outcome is Outcome.HAS_DELETES:
            settled = await asyncio.to_thread(
                self._rewriting, lambda table: self._tools.rewriter.settle_deletes(table.name())
            )
            self._count("files rewritten for deletes", settled.files_before)
            result = await asyncio.to_thread(self._mirror_now)
        if result.outcome is Outcome.MIRRORED:
            self._count("files added to Delta", result.adds)
            self._count("files removed from Delta", result.removes)

    async def _retention(self) -> None:
        config, now_ms = self._config, self._tools.clock.wall_ms()
        if config.table_retention_ms == config.retention_ms == config.retention_bytes == KEEP:
            return
        files = await asyncio.to_thread(self._files)
        if config.retention_ms != KEEP:
            old = retention.too_old(files, now_ms - config.retention_ms)
            await self._move_log_starts(old.starts)
        if config.retention_bytes != KEEP:
            await self._move_log_starts(retention.beyond_size(files, config.retention_bytes))
        if config.table_retention_ms != KEEP:
            leaving = retention.too_old(files, now_ms - config.table_retention_ms)
            # First the stream's start: no consumer may look for rows that are gone.
            await self._move_log_starts(leaving.starts)
            await asyncio.to_thread(self._remove, leaving)

    async def _move_log_starts(self, starts: Mapping[int, int]) -> None:
        for partition, start in starts.items():
            place = TopicPartition(self._topic.id, partition)
            await self._tools.log_starts.delete_records(place, start)

    def _remove(self, leaving: retention.Leaving) -> None:
        if not leaving.paths:
            return
        for _ in range(_TRIES):
            if retention.remove(self._table(), leaving.paths):
                self._count("files past retention", len(leaving.paths))
                return
        raise Unavailable(_NEVER_ALONE)

    async def _merge(self) -> None:
        policy = self._tools.policy.merge

        def work() -> None:
            table = self._table()
            ends = TableState.of(table).ends
            chosen = small_files.windows(self._files(), ends, policy, is_seldom=self._is_seldom)
            if chosen:
                where = small_files.condition(chosen)
                most = max(window.size for window in chosen)
                merged = self._rewriting(
                    lambda table: self._tools.rewriter.merge(
                        table.name(),
                        target_bytes=policy.target_bytes,
                        where=where,
                        most_bytes=most,
                    )
                )
                self._count("files merged", merged.files_before)
                self._count("files made by merging", merged.files_after)
                self._count("bytes merged", merged.bytes_read)

        await asyncio.to_thread(work)

    async def _manifests(self) -> None:
        def work() -> None:
            table = self._table()
            snapshot = table.current_snapshot()
            count = len(snapshot.manifests(table.io)) if snapshot else 0
            if count > self._tools.policy.max_manifests:
                gathered = self._rewriting(
                    lambda table: self._tools.rewriter.gather_manifests(table.name())
                )
                self._count("manifests gathered", gathered)

        await asyncio.to_thread(work)

    async def _delta_log(self) -> None:
        if "delta" not in self._config.table_formats:
            return

        def work() -> int | None:
            table = self._table()
            return delta_care.care(table, TableFolder(table), self._tools.policy.checkpoint_after)

        version = await asyncio.to_thread(work)
        if version is not None:
            self._count("Delta checkpoint", version)

    async def _orphans(self) -> None:
        folder = TableFolder(await asyncio.to_thread(self._table))
        # In this order: what is listed, then intended, then committed or set aside is seen in one.
        listed = await asyncio.to_thread(folder.list)
        intent = await self._tools.intents.intent(self._topic.id)
        intended = []
        if intent is not None:
            append = TableAppend.from_body(UUID(intent.commit_id), intent.body)
            intended = [file.path for file in append.files]
            intended += [batch.path for batch in append.quarantined]
        intended += [each.path for each in await self._tools.intents.quarantined(self._topic.id)]
        needed = await asyncio.to_thread(lambda: referenced(self._table(), intended))
        note = await asyncio.to_thread(folder.read_note, orphans.NOTE)
        now_ms = self._tools.clock.wall_ms()
        verdict = orphans.judge(listed, needed, note, now_ms, self._tools.policy.orphans)
        await asyncio.to_thread(folder.write_note, orphans.NOTE, verdict.waiting)
        await self._still()
        self._count("orphans deleted", await asyncio.to_thread(folder.delete, verdict.doomed))
        self._count("orphan bytes deleted", sum(listed[path] for path in verdict.doomed))
        self._count("orphans waiting", len(verdict.waiting))

    def _rewriting(self, work: Callable[[Table], T]) -> T:
        """Whatever became of it, what was written is on the disk before a later step deletes."""
        before = self._table()
        try:
            return work(before)
        finally:
            sync_changes(before, self._table())

    def _table(self) -> Table:
        table = self._tools.catalog.load(self._layout)
        if table is None:
            raise RedTable("the table is gone", snapshot_id=None, remedy="restore it")
        return table

    def _files(self) -> list[MirroredFile]:
        table = self._table()
        snapshot = table.current_snapshot()
        return [] if snapshot is None else list(live_files(table, snapshot).values())

    def _mirror_now(self) -> MirrorResult:
        """Raises `RedTable` when others changed it so that a person must look at it first."""
        table = self._tools.catalog.check(self._layout)
        return mirror(self._table() if table is None else table, self._topic.id)

    def _count(self, what: str, number: int) -> None:
        if number:
            self.done[what] = self.done.get(what, 0) + number
            event(_log, logging.INFO, what, topic=self._topic.name, number=number)

    def _named(self, step: str, error: LakestreamError) -> dict[str, object]:
        return {"topic": self._topic.name, "step": step, "error": error}


async def is_mended(topic: Topic, tools: Tools) -> bool:
    """Whether a table that was red has everything again and nothing else.

    While there is something to commit the committer finds that out, and not always by the table.
    """
    known = await tools.intents.ends(topic.id)
    has_work = any(each.table_end != each.last_stable for each in known.values())
    if has_work or await tools.intents.intent(topic.id) is not None:
        return False
    layout = tools.catalog.layout(topic.id, topic.name, topic.config)
    try:
        table = await asyncio.to_thread(tools.catalog.check, layout, known)
    except (RedTable, Corrupt):
        return False
    ends = {} if table is None else TableState.of(table).ends
    return all(ends.get(partition, 0) == each.table_end for partition, each in known.items())
