"""Which broker coordinates which groups: slots of groups, each under a lease.

What always holds: a slot is held here only after its groups were loaded, and from then on nobody
else can change what is stored of them; a slot taken again has a new epoch, so that what was begun
under the old one is fenced; a slot whose lease was lost, or could not be renewed for its session
time, is dropped.
"""

import asyncio
import logging
from typing import Final, Protocol
from zlib import crc32

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Transient
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.ports import Directory
from lakestream_spark.metadata.leases import Lease, Leases

SLOTS: Final = 64
"""Never changes: it is part of what is stored."""
_log: Final = logging.getLogger(__name__)


def slot_of(group_id: str) -> int:
    """The slot of a group, the same on every broker."""
    return crc32(group_id.encode()) % SLOTS


def lease_name(slot: int) -> str:
    return f"groups/{slot}"


class Tenant(Protocol):
    """What lives in the slots."""

    async def move_in(self, slot: int, lease: Lease) -> None:
        """Load the slot; afterwards its requests are served."""

    def move_out(self, slot: int) -> None:
        """The slot is lost: forget it, and tell those who wait."""


class Slots:
    """The slots that this broker holds."""

    def __init__(
        self,
        leases: Leases,
        directory: Directory,
        tenant: Tenant,
        clock: Clock,
        limits: GroupLimits,
    ) -> None:
        self._leases = leases
        self._directory = directory
        self._tenant = tenant
        self._clock = clock
        self._session_s = limits.lease_session_ms / 1000
        # Not in the directory and two beats missed: gone, though its session may not be over.
        self._gone_s = 2 * limits.lease_renew_ms / 1000
        self._held: dict[int, Lease] = {}
        self._dropped: dict[int, Lease] = {}
        self._taking: dict[int, asyncio.Task[bool]] = {}
        self._renewed = clock.monotonic()
        self._closed = False

    async def holder_of(self, slot: int) -> str | None:
        """Who holds the slot, this broker if it was free; None while it changes hands."""
        if slot in self._held:
            return self._directory.holder
        name = lease_name(slot)
        holder = (await self._leases.look([name])).get(name)
        if holder is not None and not self._is_gone(name, holder):
            return holder
        return self._directory.holder if await self._take(slot) else None

    async def keep(self) -> None:
        """Renew what is held, and take what was left by those who are gone."""
        await self._renew()
        free = {lease_name(slot): slot for slot in range(SLOTS) if slot not in self._held}
        for name, holder in (await self._leases.look(list(free))).items():
            if holder is None or self._is_gone(name, holder):
                await self._take(free[name])

    def drop(self, slot: int) -> None:
        """The lease was lost."""
        lease = self._held.pop(slot, None)
        if lease is not None:
            self._dropped[slot] = lease
            self._tenant.move_out(slot)

    async def release_all(self) -> None:
        """Give everything back, so that others need not wait, and take nothing any more."""
        self._closed = True
        for slot, lease in list(self._held.items()):
            self.drop(slot)
            await self._leases.release(lease)

    async def _renew(self) -> None:
        if not self._held:
            self._renewed = self._clock.monotonic()
            return
        try:
            lost = await self._leases.renew_all(list(self._held.values()))
        except Transient:
            if self._clock.monotonic() - self._renewed >= self._session_s:
                _log.warning("groups are given up: their leases could not be renewed in time")
                for slot in list(self._held):
                    self.drop(slot)
            raise
        self._renewed = self._clock.monotonic()
        slots = {lease: slot for slot, lease in self._held.items()}
        for lease in lost:
            if lease in slots:
                _log.warning("another broker coordinates the groups of %s now", lease.name)
                self.drop(slots[lease])

    def _is_gone(self, name: str, holder: str) -> bool:
        if holder == self._directory.holder:
            return True  # Ours, but dropped or not loaded yet.
        known = self._directory.address_of(holder) is not None
        return self._leases.still_s(name) >= (self._session_s if known else self._gone_s)

    async def _take(self, slot: int) -> bool:
        """Whether the slot is ours now. All who ask at once wait for one attempt."""
        if slot in self._held or self._closed:
            return slot in self._held
        taking = self._taking.get(slot)
        if taking is None:
            taking = asyncio.create_task(self._try_take(slot), name=f"take-{lease_name(slot)}")
            self._taking[slot] = taking
            taking.add_done_callback(lambda done: self._taken(slot, done))
        return await asyncio.shield(taking)

    def _taken(self, slot: int, task: asyncio.Task[bool]) -> None:
        del self._taking[slot]
        if not task.cancelled() and task.exception() is not None:
            _log.warning("the groups of slot %d could not be taken: %s", slot, task.exception())

    async def _try_take(self, slot: int) -> bool:
        lease = await self._acquire(slot)
        if lease is not None and lease == self._dropped.get(slot):
            await self._leases.release(lease)
            lease = await self._acquire(slot)
        if lease is None:
            return False
        await self._tenant.move_in(slot, lease)
        self._held[slot] = lease
        return True

    async def _acquire(self, slot: int) -> Lease | None:
        # The caller found it free or its holder gone; a beat since then is still noticed.
        return await self._leases.try_acquire(
            lease_name(slot), self._directory.holder, self._gone_s
        )
