"""The group coordinator of one broker.

    run() ─► keeps the leases of slots, takes over those of brokers that are gone, stores changes
    requests ─► guard (id, slot, timeouts) ─► decide ─► answer, at once or when the group has one

What always holds: nothing is raised for a store that does not answer or a lease that was lost: a
client is told to try again or to look for the new coordinator. After a takeover members are unknown
and join again; they go on from the offsets they committed.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import uuid4

from kio.schema.errors import ErrorCode

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Transient
from lakestream_spark.groups import membership
from lakestream_spark.groups.group import State
from lakestream_spark.groups.join import join
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import (
    NO_MEMBER,
    Caller,
    GroupDescription,
    Join,
    Joined,
    Left,
    Sync,
    Synced,
    Ticket,
)
from lakestream_spark.groups.offset_service import GroupOffsetService
from lakestream_spark.groups.offset_writer import OffsetWriter
from lakestream_spark.groups.ports import Directory
from lakestream_spark.groups.roster import Entry, HeldSlot, Roster
from lakestream_spark.groups.rows import GroupRows, Guarded
from lakestream_spark.groups.slots import Slots, slot_of
from lakestream_spark.groups.sync import sync
from lakestream_spark.metadata.brokers import Node
from lakestream_spark.metadata.group_offsets import GroupOffsets
from lakestream_spark.metadata.leases import Lease, Leases

T = TypeVar("T")
A = TypeVar("A", Joined, Synced)

_LOOK_EVERY_S: Final = 0.1
_log: Final = logging.getLogger(__name__)


class GroupService:
    """Coordinates the groups whose slots this broker holds; `offsets` serves what they committed.

    `run` must be running: it keeps the leases.
    """

    def __init__(
        self,
        leases: Leases,
        store: GroupOffsets,
        directory: Directory,
        *,
        clock: Clock,
        limits: GroupLimits | None = None,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._store = store
        self._directory = directory
        self._clock = clock
        self._limits = limits or GroupLimits()
        self._new_id = new_id
        self._roster = Roster(clock, self._limits)
        self._slots = Slots(leases, directory, self, clock, self._limits)
        self._guarded = Guarded(self._roster, self._slots)
        self._rows = GroupRows(self._roster, store, self._guarded)
        self.offsets = GroupOffsetService(
            self._roster, store, self._guarded, clock=clock, limits=self._limits
        )

    async def coordinator(self, group_id: str) -> Node | None:
        """The broker that coordinates the group, this one if nobody does. While it changes the
        answer waits a moment; None if that was not enough or the store does not answer."""
        until = self._clock.monotonic() + self._limits.find_wait_ms / 1000
        while (found := await self._look_for(group_id)) is None:
            if self._clock.monotonic() >= until:
                return None
            await self._clock.sleep(_LOOK_EVERY_S)
        return found

    async def _look_for(self, group_id: str) -> Node | None:
        try:
            holder = await self._slots.holder_of(slot_of(group_id))
        except Transient as error:
            _log.warning("a coordinator cannot be found now: %s", error)
            return None
        return None if holder is None else self._directory.address_of(holder)

    @property
    def waiting(self) -> int:
        """How many joins and syncs are not answered yet."""
        return len(self._roster.parked)

    async def join(self, group_id: str, asked: Join) -> Joined:
        """The answer to a JoinGroup, when the group has gathered. Who does not wait for it, by
        cancelling, is out of the rebalance."""
        refused = self._check_join(group_id, asked)
        entry = refused or self._roster.find(group_id, create=asked.member_id == NO_MEMBER)
        if isinstance(entry, ErrorCode):
            return Joined(error=_unknown(entry), member_id=asked.member_id)
        name = asked.instance_id or asked.client_id
        asked = replace(asked, new_member_id=f"{name}-{self._new_id()}")
        ticket = self._roster.parked.ticket()
        now = self._clock.monotonic()
        self._roster.decided(entry, join(entry.group, self._limits, asked, ticket, now))
        return await self._answer(entry, ticket, Joined)

    async def sync(self, group_id: str, asked: Sync) -> Synced:
        """The member's assignment, when the leader has made it."""
        entry = self._find(group_id)
        if isinstance(entry, ErrorCode):
            return Synced(error=_unknown(entry))
        ticket = self._roster.parked.ticket()
        now = self._clock.monotonic()
        self._roster.decided(entry, sync(entry.group, asked, ticket, now))
        return await self._answer(entry, ticket, Synced)

    async def _answer(self, entry: Entry, ticket: Ticket, kind: type[A]) -> A:
        try:
            return await self._roster.parked.wait(ticket, kind)
        except asyncio.CancelledError:
            if self._roster.knows(entry):
                now = self._clock.monotonic()
                replies = membership.hung_up(entry.group, self._limits, ticket, now)
                self._roster.decided(entry, replies)
            raise

    def heartbeat(self, group_id: str, caller: Caller) -> ErrorCode:
        """A sign of life, answered with what the member has to do."""
        entry = self._find(group_id)
        if isinstance(entry, ErrorCode):
            return _unknown(entry)
        return membership.heartbeat(entry.group, caller, self._clock.monotonic())

    def leave(self, group_id: str, leaving: Sequence[Caller]) -> list[Left] | ErrorCode:
        """What became of each that was to leave, or why none could."""
        entry = self._find(group_id)
        if entry is ErrorCode.group_id_not_found:
            return [Left(caller, ErrorCode.unknown_member_id) for caller in leaving]
        if isinstance(entry, ErrorCode):
            return entry
        now = self._clock.monotonic()
        results, replies = membership.leave(entry.group, self._limits, leaving, now)
        self._roster.decided(entry, replies)
        return results

    def describe(self, group_id: str) -> GroupDescription:
        """The group; state Dead and `group_id_not_found` if there is no such one."""
        entry = self._roster.find(group_id)
        if isinstance(entry, ErrorCode):
            return GroupDescription(group_id, State.DEAD.value, error=entry)
        return entry.group.describe()

    def list(self) -> list[GroupDescription]:
        """The groups that this broker coordinates."""
        return [entry.group.describe() for entry in self._roster.entries()]

    async def delete(self, group_id: str) -> ErrorCode:
        """Forget a group without members, and its offsets."""
        entry = self._roster.find(group_id)
        if isinstance(entry, ErrorCode):
            return entry
        group = entry.group
        if group.state is not State.EMPTY:
            dead = group.state is State.DEAD
            return ErrorCode.group_id_not_found if dead else ErrorCode.non_empty_group
        group.state = State.DEAD  # Nobody joins or commits while it is being deleted.
        deleted = await self._guarded(entry.slot, self._store.delete(entry.slot.lease, group_id))
        if isinstance(deleted, ErrorCode):
            group.state = State.EMPTY
            return deleted
        self._roster.remove(entry)
        return ErrorCode.none

    async def run(self) -> None:
        """Keep the leases and store changes until cancelled; then give everything back."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_leases(), name="group-leases")
                tasks.create_task(self._store_rows(), name="group-rows")
        finally:
            await self._give_back()

    async def keep(self) -> None:
        """One round of `run`: renew the leases, and take over from brokers that are gone."""
        try:
            await self._slots.keep()
        except Transient as error:
            _log.warning("the leases of groups cannot be kept now: %s", error)

    async def move_in(self, slot: int, lease: Lease) -> None:
        stored = await self._store.load(slot)
        writer = OffsetWriter(self._store, lease, slot)
        self._roster.open(HeldSlot(number=slot, lease=lease, writer=writer), stored)

    def move_out(self, slot: int) -> None:
        self._roster.close(slot)

    def _find(self, group_id: str) -> Entry | ErrorCode:
        return ErrorCode.invalid_group_id if not group_id else self._roster.find(group_id)

    def _check_join(self, group_id: str, asked: Join) -> ErrorCode | None:
        if not group_id or not self._limits.allows_id(group_id):
            return ErrorCode.invalid_group_id
        limits = self._limits
        shortest, longest = limits.min_session_timeout_ms, limits.max_session_timeout_ms
        if not shortest <= asked.session_timeout_ms <= longest:
            return ErrorCode.invalid_session_timeout
        return None

    async def _keep_leases(self) -> None:
        while True:
            await _to_its_end(self.keep())
            await self._clock.sleep(self._limits.lease_renew_ms / 1000)

    async def _store_rows(self) -> None:
        while True:
            await self._roster.changed.wait()
            if not await _to_its_end(self._rows.flush()):
                await self._clock.sleep(self._limits.lease_renew_ms / 1000)

    async def _give_back(self) -> None:
        try:
            await self._rows.flush()
            await self._slots.release_all()
        except Transient as error:
            _log.warning("leases of groups were not given back: %s", error)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that is not left half done when its caller is cancelled."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _unknown(error: ErrorCode) -> ErrorCode:
    """What a member of a group that does not exist is told: to join again."""
    return ErrorCode.unknown_member_id if error is ErrorCode.group_id_not_found else error
