"""The groups of the slots that this broker holds, and the requests that wait in them.

What always holds: a request is decided on at once, without waiting, so that decisions on a group
follow each other; every ticket handed out is answered by the group or when its slot is lost.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from lakestream_spark.core.clock import Clock
from lakestream_spark.groups.alarms import Alarms
from lakestream_spark.groups.group import Group, State
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.membership import dissolve, tick
from lakestream_spark.groups.messages import Reply
from lakestream_spark.groups.offset_writer import OffsetWriter
from lakestream_spark.groups.parked import Parked
from lakestream_spark.groups.slots import slot_of
from lakestream_spark.metadata.group_offsets import StoredGroup
from lakestream_spark.metadata.leases import Lease


@dataclass(slots=True, kw_only=True)
class Entry:
    """A group with what is known of it beside its members."""

    group: Group
    slot: "HeldSlot"
    stored: StoredGroup | None = None
    empty_since_ms: int | None = None
    version: int = 0
    """Changes with every decision on the group."""

    @property
    def to_store(self) -> StoredGroup:
        group = self.group
        return StoredGroup(group.id, group.protocol_type, group.generation, self.empty_since_ms)


@dataclass(slots=True, kw_only=True)
class HeldSlot:
    """A slot of groups under our lease."""

    number: int
    lease: Lease
    writer: OffsetWriter
    groups: dict[str, Entry] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    """Groups whose stored row is not what it should be."""


class Roster:
    """Groups by slot and id."""

    def __init__(self, clock: Clock, limits: GroupLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._slots: dict[int, HeldSlot] = {}
        self._alarms = Alarms(clock, self._ring)
        self.parked = Parked()
        self.changed = asyncio.Event()
        """Set while a group's stored row is not what it should be."""

    def open(self, slot: HeldSlot, stored: Sequence[StoredGroup]) -> None:
        """Serve the groups of a slot. Those that had members wait for them to come again."""
        self._slots[slot.number] = slot
        for row in stored:
            group = Group(
                id=row.group_id, protocol_type=row.protocol_type, generation=row.generation
            )
            entry = Entry(group=group, slot=slot, stored=row, empty_since_ms=row.empty_since_ms)
            slot.groups[group.id] = entry
            self.decided(entry, [])

    def close(self, number: int) -> None:
        """The slot is lost: its groups are forgotten and those who wait look for another broker."""
        slot = self._slots.pop(number, None)
        for entry in list(slot.groups.values()) if slot else ():
            self._alarms.cancel(entry.group.id)
            self.parked.answer(dissolve(entry.group, ErrorCode.not_coordinator))

    def slot(self, group_id: str) -> HeldSlot | None:
        """The slot of a group, if it is held here."""
        return self._slots.get(slot_of(group_id))

    def holds(self, slot: HeldSlot) -> bool:
        """Whether the slot is still held, under that lease."""
        return self._slots.get(slot.number) is slot

    def slots(self) -> list[HeldSlot]:
        return list(self._slots.values())

    def entries(self) -> Iterator[Entry]:
        for slot in self._slots.values():
            yield from slot.groups.values()

    def find(self, group_id: str, *, create: bool = False) -> Entry | ErrorCode:
        """The group; `not_coordinator` if its slot is elsewhere, `group_id_not_found` if it is
        unknown and not to be made."""
        slot = self.slot(group_id)
        if slot is None:
            return ErrorCode.not_coordinator
        entry = slot.groups.get(group_id)
        if entry is not None:
            return entry
        if not create:
            return ErrorCode.group_id_not_found
        entry = slot.groups[group_id] = Entry(group=Group(id=group_id), slot=slot)
        return entry

    def knows(self, entry: Entry) -> bool:
        """Whether this is still the group of that id."""
        return self.holds(entry.slot) and entry.slot.groups.get(entry.group.id) is entry

    def decided(self, entry: Entry, replies: list[Reply]) -> None:
        """After every decision on a group: answer, remember what is to be stored, set the alarm."""
        group = entry.group
        entry.version += 1
        if group.state is not State.EMPTY:
            entry.empty_since_ms = None
        elif entry.empty_since_ms is None:
            entry.empty_since_ms = self._clock.wall_ms()
        self.parked.answer(replies)
        if group.state is State.EMPTY and not group.pending and self._never_was(entry):
            self.remove(entry)
            return
        if group.generation > 0 and entry.to_store != entry.stored:
            entry.slot.changed.add(group.id)
            self.changed.set()
        self._alarms.set(group.id, group.next_deadline)

    def remove(self, entry: Entry) -> None:
        """Forget a group that has neither members nor anything stored."""
        self._alarms.cancel(entry.group.id)
        entry.slot.groups.pop(entry.group.id, None)
        entry.slot.changed.discard(entry.group.id)

    @staticmethod
    def _never_was(entry: Entry) -> bool:
        return entry.stored is None and entry.group.generation == 0

    def _ring(self, group_id: str) -> None:
        entry = self.find(group_id)
        if isinstance(entry, Entry):
            now = self._clock.monotonic()
            self.decided(entry, tick(entry.group, self._limits, now))
