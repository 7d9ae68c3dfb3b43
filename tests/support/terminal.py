"""A program at a terminal of its own: what a person would see."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_SIZE: Final = (40, 160)
_OF_ANOTHER: Final = ("LAKESTREAM_", "COLUMNS", "LINES")
"""Variables that tell of other settings, and of the size of another terminal."""
_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PATIENCE_S: Final = 180.0


class Terminal:
    """The screen of one program."""

    def __init__(self, words: Sequence[str]) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
        environ = {k: v for k, v in os.environ.items() if not k.startswith(_OF_ANOTHER)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=_ROOT,
            env={**environ, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._screen = ours
        self.shown = ""
        """All that was written, without the codes that move and colour it."""

    def wait_for(self, pattern: str) -> None:
        """Until something like this has been shown."""
        deadline = time.monotonic() + _PATIENCE_S
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, self.shown[-3000:]
            assert self._read(), self.shown[-3000:]

    def end(self, number: int | None = None) -> int:
        """Wait for the end, which a signal may bring about; the exit code."""
        if number is not None:
            self.process.send_signal(number)
        deadline = time.monotonic() + _PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, self.shown[-3000:]
        return self.process.wait(_PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._screen)

    def _read(self) -> bool:
        """Whether there may be more."""
        if not select.select([self._screen], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._screen, 65536)
        except OSError:  # how a terminal tells that everybody has left
            return False
        self.shown += _CODES.sub("", data.decode(errors="replace"))
        return bool(data)


@contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    """`python -m words` at a terminal; killed at the end if it still runs."""
    opened = Terminal(words)
    try:
        yield opened
    finally:
        opened.close()
