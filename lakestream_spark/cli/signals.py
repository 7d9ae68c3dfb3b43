"""Signals that ask a process to stop."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

_LOOK_S: Final = 0.5
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


def stop_after(parent: int) -> None:
    """Tell this process to stop once the one that started it is gone, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="parent-watch", daemon=True).start()
