"""One look at a table at a time, whoever waits for it.

What always holds: a look goes on when those who wait for it give up, so that what it costs is spent
once; all who need one that began early enough share it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Look(Generic[T]):
    """What a call gives that runs in a thread of its own."""

    def __init__(self, call: Callable[[], T], began: float) -> None:
        self.began: Final = began
        self._found: Future[T] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(call,), name="look-at-table", daemon=True
        )
        self._thread.start()

    @property
    def under_way(self) -> bool:
        return not self._found.done()

    def ended(self, within_s: float | None) -> bool:
        """Whether it came to an end in this time, whatever it gave."""
        return bool(wait([self._found], within_s).done)

    def result(self) -> T:
        """When it has ended: what the call gave, or raised."""
        return self._found.result()

    def join(self) -> None:
        self._thread.join()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._found.set_result(call())
        except BaseException as error:
            self._found.set_exception(error)
