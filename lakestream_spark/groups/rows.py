"""The stored rows of groups, brought up to date behind the requests.

Nobody waits for them: a row says since when a group is empty and which generation was last, and a
coordinator that starts from an older one is no less right.
"""

import logging
from collections.abc import Awaitable
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from lakestream_spark.core.errors import Fenced, Transient
from lakestream_spark.groups.roster import HeldSlot, Roster
from lakestream_spark.groups.slots import Slots
from lakestream_spark.metadata.group_offsets import GroupOffsets

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


class Guarded:
    """Turns what can go wrong with the store into what a client is told."""

    def __init__(self, roster: Roster, slots: Slots) -> None:
        self._roster = roster
        self._slots = slots

    async def __call__(self, slot: HeldSlot, call: Awaitable[T]) -> T | ErrorCode:
        """The result of a call under the slot's lease. If the lease was lost, so is the slot."""
        try:
            return await call
        except Fenced:
            if self._roster.holds(slot):
                self._slots.drop(slot.number)
            return ErrorCode.not_coordinator
        except Transient as error:
            _log.warning("the store of groups does not answer: %s", error)
            return ErrorCode.coordinator_not_available


class GroupRows:
    """Writes the rows of groups that changed."""

    def __init__(self, roster: Roster, store: GroupOffsets, guarded: Guarded) -> None:
        self._roster = roster
        self._store = store
        self._guarded = guarded

    async def flush(self) -> bool:
        """Store every row that changed; False when some have to be tried again."""
        self._roster.changed.clear()
        stored = [await self._flush(slot) for slot in self._roster.slots() if slot.changed]
        if any(slot.changed for slot in self._roster.slots()):
            self._roster.changed.set()
        return all(stored)

    async def _flush(self, slot: HeldSlot) -> bool:
        entries = [slot.groups[group_id] for group_id in sorted(slot.changed)]
        rows = [entry.to_store for entry in entries]
        error = await self._guarded(slot, self._store.save(slot.lease, slot.number, rows))
        if error is ErrorCode.coordinator_not_available:
            return False
        for entry, row in zip(entries, rows, strict=True):
            entry.stored = row
            if entry.to_store == row:
                slot.changed.discard(entry.group.id)
        return True
