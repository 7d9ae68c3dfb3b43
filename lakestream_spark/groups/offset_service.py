"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete and their expiry.

What always holds: a commit is checked against the group before it waits for the store, and the
store takes commits in that order; what is read comes from the store, never from memory.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.groups.group import State
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import Caller
from lakestream_spark.groups.offsets import check_commit, check_deletion, is_subscribed
from lakestream_spark.groups.roster import HeldSlot, Roster
from lakestream_spark.groups.rows import Guarded
from lakestream_spark.metadata.group_offsets import (
    Commit,
    Committed,
    Expiry,
    GroupOffsets,
    StoredGroup,
)

Outcomes: TypeAlias = Mapping[TopicPartition, ErrorCode]


class GroupOffsetService:
    """The offsets of the groups that this broker coordinates."""

    def __init__(
        self,
        roster: Roster,
        store: GroupOffsets,
        guarded: Guarded,
        *,
        clock: Clock,
        limits: GroupLimits,
    ) -> None:
        self._roster = roster
        self._store = store
        self._guarded = guarded
        self._clock = clock
        self._limits = limits

    async def commit(
        self,
        group_id: str,
        caller: Caller,
        offsets: Sequence[Committed],
        retention_ms: int | None = None,
    ) -> Outcomes | ErrorCode:
        """What became of each offset, or why none was taken."""
        if not self._limits.allows_id(group_id):
            return ErrorCode.invalid_group_id
        entry = self._roster.find(group_id, create=caller.generation < 0)
        if entry is ErrorCode.group_id_not_found:
            return ErrorCode.illegal_generation  # As Kafka: the member joins again.
        if isinstance(entry, ErrorCode):
            return entry
        refused = check_commit(entry.group, caller, self._clock.monotonic())
        if refused is not ErrorCode.none:
            return refused
        outcomes = {each.partition: self._check_metadata(each) for each in offsets}
        good = [each for each in offsets if outcomes[each.partition] is ErrorCode.none]
        unknown = await self._store_offsets(entry.slot, group_id, good, retention_ms)
        if isinstance(unknown, ErrorCode):
            return unknown
        return outcomes | dict.fromkeys(unknown, ErrorCode.unknown_topic_or_partition)

    async def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed] | ErrorCode:
        """What the group committed of these partitions; the others are left out."""
        slot = self._roster.slot(group_id)
        if slot is None:
            return ErrorCode.not_coordinator
        return await self._guarded(slot, self._store.fetch(group_id, partitions))

    async def fetch_all(self, group_id: str) -> Sequence[tuple[str, Committed]] | ErrorCode:
        """Everything the group committed, with the names of the topics."""
        slot = self._roster.slot(group_id)
        if slot is None:
            return ErrorCode.not_coordinator
        return await self._guarded(slot, self._store.fetch_all(group_id))

    async def delete(
        self, group_id: str, wanted: Sequence[tuple[str, TopicPartition]]
    ) -> Outcomes | ErrorCode:
        """Forget offsets of partitions, given with their topics' names; those in use stay."""
        if not group_id:
            return ErrorCode.invalid_group_id
        entry = self._roster.find(group_id)
        if isinstance(entry, ErrorCode):
            return entry
        refused = check_deletion(entry.group)
        if refused is not ErrorCode.none:
            return refused
        in_use = {topic for topic, _ in wanted if is_subscribed(entry.group, topic)}
        free = [partition for topic, partition in wanted if topic not in in_use]
        error = await self._guarded(
            entry.slot, self._store.forget(entry.slot.lease, group_id, free)
        )
        if error is not None:
            return error
        subscribed = ErrorCode.group_subscribed_to_topic
        return {p: subscribed if topic in in_use else ErrorCode.none for topic, p in wanted}

    async def expire(self) -> int:
        """Forget the offsets of groups that were empty for the retention time, and empty groups
        without offsets; how many groups went. Call it from time to time."""
        now_ms = self._clock.wall_ms()
        return sum([await self._expire(slot, now_ms) for slot in self._roster.slots()])

    async def _expire(self, slot: HeldSlot, now_ms: int) -> int:
        before_ms = now_ms - self._limits.offsets_retention_ms
        empty = [e for e in slot.groups.values() if e.group.state is State.EMPTY]
        versions = {entry.group.id: entry.version for entry in empty}
        expiry = Expiry(
            long_empty=[e.group.id for e in empty if (e.empty_since_ms or 0) <= before_ms],
            empty=list(versions),
            before_ms=before_ms,
            now_ms=now_ms,
        )
        gone = await self._guarded(slot, self._store.expire(slot.lease, slot.number, expiry))
        if isinstance(gone, ErrorCode):
            return 0
        for group_id in gone:
            entry = slot.groups.get(group_id)
            if entry is None:
                continue
            entry.stored = None
            if entry.version == versions[group_id] and not entry.group.pending:
                self._roster.remove(entry)
            else:
                self._roster.decided(entry, [])
        return len(gone)

    async def _store_offsets(
        self,
        slot: HeldSlot,
        group_id: str,
        offsets: Sequence[Committed],
        retention_ms: int | None,
    ) -> set[TopicPartition] | ErrorCode:
        if not offsets:
            return set()
        now_ms = self._clock.wall_ms()
        expire_ms = None if retention_ms is None else now_ms + retention_ms
        commits = [Commit(group_id, each, now_ms, expire_ms) for each in offsets]
        unknown = await self._guarded(slot, slot.writer.commit(commits))
        entry = self._roster.find(group_id, create=True)
        if not isinstance(entry, ErrorCode):
            stored = not isinstance(unknown, ErrorCode) and len(unknown) < len(commits)
            if entry.stored is None and stored:
                entry.stored = StoredGroup(group_id, None, 0, now_ms)
            self._roster.decided(entry, [])
        return unknown

    def _check_metadata(self, offset: Committed) -> ErrorCode:
        too_long = len(offset.metadata) > self._limits.max_metadata_chars
        return ErrorCode.offset_metadata_too_large if too_long else ErrorCode.none
