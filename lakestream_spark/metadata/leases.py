"""Leases with fencing epochs that compare observations, not clocks.

What always holds: a lease's epoch only grows, and each epoch has one holder; a lease changes hands
only after a challenger saw the holder's beat stand still for the session time on its own monotonic
clock, or after a release; a write that ran `guard` is undone if the lease was lost before it, and
makes the next holder wait until it is done.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Fenced
from lakestream_spark.metadata.database import Database, Execute, Fetch, Rows, Transaction


class Lease(NamedTuple):
    """A lease as its holder knows it; `guard` tells whether it still holds."""

    name: str
    holder: str
    epoch: int


class _Seen(NamedTuple):
    """A lease's row."""

    epoch: int
    holder: str | None
    beat: int


class _Observation(NamedTuple):
    seen: _Seen
    since: float


class Leases:
    """One process's view of the leases. `holder` names a process's life, never used again."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._held: dict[str, Lease] = {}
        self._observed: dict[str, _Observation] = {}

    async def try_acquire(self, name: str, holder: str, session_s: float) -> Lease | None:
        """The lease if it is free, ours already, or stood still for `session_s`; call again if not.

        A challenger needs at least two calls: the first remembers, a later one compares.
        """
        seen = await self._database.read(_look(name))
        held = self._held.get(name)
        if seen and held and (seen.holder, seen.epoch) == (holder, held.epoch) == held[1:]:
            return held
        if seen and seen.holder is not None and not self._stands_still(name, seen, session_s):
            return None
        epoch = await self._database.run(_take(name, holder, seen))
        self._observed.pop(name, None)
        if epoch is None:
            return None
        lease = self._held[name] = Lease(name, holder, epoch)
        return lease

    async def renew(self, lease: Lease) -> None:
        """Show that the holder lives; raises `Fenced` when the lease was lost."""
        await self._database.run(_renew(lease))

    async def renew_all(self, leases: Sequence[Lease]) -> list[Lease]:
        """Renew many leases in one transaction; those that were lost come back."""
        return await self._database.run(_renew_all(leases))

    async def look(self, names: Sequence[str]) -> dict[str, str | None]:
        """Who holds each of these leases, None for one that was released; one that was never held
        is left out. What is seen here counts for `still_s` and for `try_acquire`."""
        rows = await self._database.read(_look_at(names))
        for name, seen in rows.items():
            self._stands_still(name, seen, 0)
        return {name: seen.holder for name, seen in rows.items()}

    def still_s(self, name: str) -> float:
        """For how long this process has seen the lease's holder and beat unchanged."""
        observation = self._observed.get(name)
        return 0.0 if observation is None else self._clock.monotonic() - observation.since

    async def release(self, lease: Lease) -> None:
        """Give the lease back; nothing happens if it was lost already."""
        self._held.pop(lease.name, None)
        await self._database.run(_release(lease))

    def _stands_still(self, name: str, seen: _Seen, session_s: float) -> bool:
        now = self._clock.monotonic()
        observation = self._observed.get(name)
        if observation is None or observation.seen != seen:
            self._observed[name] = _Observation(seen, now)
            return False
        return now - observation.since >= session_s


def guard(lease: Lease) -> Transaction[None]:
    """Raise `Fenced` unless the lease holds, and keep it from changing hands until the end."""
    # FOR SHARE: with a plain read a zombie's write passes beside the next holder's first one.
    rows = yield Fetch("SELECT epoch, holder FROM leases WHERE name = $1 FOR SHARE", (lease.name,))
    _check(lease, rows)


def _check(lease: Lease, rows: Rows) -> None:
    if not rows or tuple(rows[0]) != (lease.epoch, lease.holder):
        raise Fenced("the lease is lost", lease=lease)


def _look(name: str) -> Transaction[_Seen | None]:
    rows = yield Fetch("SELECT epoch, holder, beat FROM leases WHERE name = $1", (name,))
    return _Seen(*rows[0]) if rows else None


def _look_at(names: Sequence[str]) -> Transaction[Mapping[str, _Seen]]:
    rows = yield Fetch(
        "SELECT name, epoch, holder, beat FROM leases WHERE name = ANY($1::text[])", (list(names),)
    )
    return {row[0]: _Seen(*row[1:]) for row in rows}


def _take(name: str, holder: str, seen: _Seen | None) -> Transaction[int | None]:
    """The new epoch, if the row is still as it was seen."""
    if seen is None:
        rows = yield Fetch(
            "INSERT INTO leases (name, epoch, holder, beat) VALUES ($1, 1, $2, 0) "
            "ON CONFLICT (name) DO NOTHING RETURNING epoch",
            (name, holder),
        )
    else:
        rows = yield Fetch(
            "UPDATE leases SET epoch = epoch + 1, holder = $2, beat = 0 "
            "WHERE name = $1 AND epoch = $3 AND beat = $4 RETURNING epoch",
            (name, holder, seen.epoch, seen.beat),
        )
    return int(rows[0][0]) if rows else None


def _renew(lease: Lease) -> Transaction[None]:
    rows = yield Fetch(
        "UPDATE leases SET beat = beat + 1 WHERE name = $1 AND epoch = $2 AND holder = $3 "
        "RETURNING epoch, holder",
        (lease.name, lease.epoch, lease.holder),
    )
    _check(lease, rows)


def _renew_all(leases: Sequence[Lease]) -> Transaction[list[Lease]]:
    # In name order: in any other, two processes that renew can wait for each other.
    ordered = sorted(leases)
    locked = yield Fetch(
        "SELECT name, holder, epoch FROM leases WHERE name = ANY($1::text[]) "
        "ORDER BY name FOR UPDATE",
        ([lease.name for lease in ordered],),
    )
    held = {Lease(*row) for row in locked}
    names = [lease.name for lease in ordered if lease in held]
    yield Execute("UPDATE leases SET beat = beat + 1 WHERE name = ANY($1::text[])", (names,))
    return [lease for lease in ordered if lease not in held]


def _release(lease: Lease) -> Transaction[None]:
    yield Execute(
        "UPDATE leases SET holder = NULL WHERE name = $1 AND epoch = $2 AND holder = $3",
        (lease.name, lease.epoch, lease.holder),
    )
