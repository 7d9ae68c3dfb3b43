"""Threads that answer questions: so many work at once, and whoever waits for a look does not work.

What always holds: a look at one table, however long it takes, keeps no question about another from
being answered; those who wait for looks are never so many that no thread is left for the others,
because who comes then is told at once that it takes longer.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from lakestream_spark.history.look import Look

_WAITING_SHARE: Final = 2


class Turns:
    """Of `threads` threads `working` ones work at a time; half of all may wait for looks."""

    def __init__(self, *, working: int, threads: int) -> None:
        self.threads: Final = threads
        self._turns = threading.Semaphore(working)
        self._room = threading.Semaphore(threads // _WAITING_SHARE)
        self._mine = threading.local()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """When it is the thread's turn."""
        with self._turns:
            self._mine.taken = True
            try:
                yield
            finally:
                self._mine.taken = False

    def ended(self, look: Look[Any], within_s: float | None) -> bool:
        """Whether the look came to an end in this time; meanwhile another thread has the turn."""
        # Threads that read ahead have no turn to give.
        if not look.under_way or not getattr(self._mine, "taken", False):
            return look.ended(within_s)
        if not self._room.acquire(blocking=False):
            return look.ended(0)
        self._turns.release()
        try:
            return look.ended(within_s)
        finally:
            self._room.release()
            self._turns.acquire()
