"""Who is at the other end of a connection, as a handler that waits needs to know it.

A client that closes its side may be gone, or may only have nothing more to send and still read:
the two look the same. So nothing is dropped: what was sent is answered, but nobody waits for more
on its behalf. A fetch is answered with what there is, a join or sync with REBALANCE_IN_PROGRESS
(the member is out of the rebalance until it comes again), a produce when it is committed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Client:
    """One end of one connection."""

    __slots__ = ("_listeners", "departed", "name")

    def __init__(self, name: str = "?") -> None:
        self.name = name
        """Address and port, for people."""
        self.departed = False
        """It sends nothing more."""
        self._listeners: list[Callable[[], object]] = []

    @property
    def host(self) -> str:
        return self.name.rpartition(":")[0]

    def depart(self) -> None:
        """Tell everybody who waits on its behalf, once."""
        self.departed = True
        listeners, self._listeners = self._listeners, []
        for tell in listeners:
            tell()

    @contextmanager
    def told(self, tell: Callable[[], object]) -> Iterator[None]:
        """Have `tell` called when the client departs while the block lasts, or has done so."""
        if self.departed:
            tell()
        self._listeners.append(tell)
        try:
            yield
        finally:
            if tell in self._listeners:
                self._listeners.remove(tell)

    async def waits_for(self, work: Coroutine[Any, Any, T], otherwise: T) -> T:
        """What the work gives; `otherwise` if the client departs first, then it is cancelled."""
        task = asyncio.create_task(work)
        with self.told(task.cancel):
            try:
                return await task
            except asyncio.CancelledError:
                own = asyncio.current_task()
                if not self.departed or (own is not None and own.cancelling()):
                    raise
                return otherwise
