"""The life of a client process: it ends when it is told to, or with those who started it."""

import os
import signal
import sys
import threading


class Life:
    """Over when SIGTERM came; a client then finishes what it has begun."""

    def __init__(self) -> None:
        self._over = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._over.set())
        # Nobody else is to be told by a key press: who started us tells us.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()

    @property
    def goes_on(self) -> bool:
        return not self._over.is_set()


def _end_with_parent() -> None:
    """Our input ends when the process that holds its other end does."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
