"""Requests that wait for an answer, each under a ticket.

What always holds: a ticket is answered at most once, and forgotten when its client goes away.
"""

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import TypeVar

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.groups.messages import Answer, Joined, Reply, Synced, Ticket

A = TypeVar("A", Joined, Synced)


class Parked:
    """Tickets and those who wait for them."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[Ticket, asyncio.Future[Answer]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def ticket(self) -> Ticket:
        """A new ticket; `wait` for it afterwards."""
        ticket = Ticket(next(self._numbers))
        self._waiting[ticket] = asyncio.get_running_loop().create_future()
        return ticket

    def answer(self, replies: Iterable[Reply]) -> None:
        for ticket, answer in replies:
            waiting = self._waiting.get(ticket)  # None when its client went away
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    async def wait(self, ticket: Ticket, kind: type[A]) -> A:
        """The answer, when it comes."""
        try:
            answer = await self._waiting[ticket]
        finally:
            del self._waiting[ticket]
        if not isinstance(answer, kind):
            raise Corrupt("a request got the answer of another", expected=kind, actual=answer)
        return answer
