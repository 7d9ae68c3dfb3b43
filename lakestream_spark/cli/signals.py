"""Signals that ask a process to stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signals(stop: Event) -> Iterator[None]:
    """SIGTERM and SIGINT set the event instead of ending the process."""
    previous = [signal.signal(number, lambda *_: stop.set()) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, previous, strict=True):
            signal.signal(number, handler)
