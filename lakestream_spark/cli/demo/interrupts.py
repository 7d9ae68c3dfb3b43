"""Ctrl-C: once to stop in good order, twice to stop at once; never a traceback."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def heeding_interrupts(stop: Event, end_now: Callable[[], None]) -> Iterator[None]:
    """The first signal sets `stop`, later ones call `end_now`; after the block none is heeded."""

    def heed(*_: object) -> None:
        if stop.is_set():
            end_now()
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, heed)
    try:
        yield
    finally:
        # Nothing is left to stop, and Python would show a traceback while it ends.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
