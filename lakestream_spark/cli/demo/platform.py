"""`lakestream up` as a process of its own, and what its log says.

What always holds: the process has a session of its own, so that Ctrl-C reaches the demo alone, and
it ends when the demo is gone, however that went; its log goes on when the disk is full; what a
process of it said last is known here.
"""

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Final, NamedTuple

from lakestream_spark.cli.workers import RESTARTED
from lakestream_spark.core.errors import Corrupt, Fenced, LakestreamError, Misconfigured, Transient

_LOG_BYTES: Final = 10_000_000
_KEPT: Final = 20
_LOOK_S: Final = 0.1
_STOP_S: Final = 60.0
_LAST_WORDS_S: Final = 2.0
_EVENT: Final = re.compile(r"\S+Z (warning|error|critical) \S+ (.+)")
_SENTENCE: Final = re.compile(r"lakestream: (.+)")
_BROKER_ENDED: Final = re.compile(rf"{RESTARTED} .*process=broker-\d+ code=(-?\d+)")
_ERROR_OF: Final = {2: Misconfigured, 3: Transient, 4: Fenced, 5: Corrupt}


class Listening(NamedTuple):
    """Where the broker listens."""

    kafka: str
    admin: str


class Platform:
    """The running process."""

    def __init__(self, up: Sequence[str], log: Path) -> None:
        """`up` are the words behind `lakestream` that start it."""
        self.log = log
        self.was_killed = False
        self._log = _LogFile(log)
        self._announced: Queue[Listening] = Queue()
        self._troubles: deque[str] = deque(maxlen=_KEPT)
        self._last_words: str | None = None
        self._failed_start: LakestreamError | None = None
        ours = ["--json", "--parent", str(os.getpid()), "--set", "log.format=text"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lakestream_spark", *up, *ours],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._pumps = [
            Thread(target=_pump, args=(stream, take), name="platform-log", daemon=True)
            for stream, take in (
                (self._process.stdout, self._announce),
                (self._process.stderr, self._hear),
            )
        ]
        for pump in self._pumps:
            pump.start()

    def ready(self, check: Callable[[], None]) -> Listening:
        """Wait until the broker listens; raises why it could not start, and what `check` does."""
        while True:
            with suppress(Empty):
                return self._announced.get(timeout=_LOOK_S)
            self.check()
            if self._failed_start is not None:
                raise self._failed_start
            check()

    def check(self) -> None:
        """Raises why the process ended, if it has."""
        code = self._process.poll()
        if code is not None:
            self._heard_all()
            raise self._ending(code)

    def troubles(self) -> list[str]:
        """What went wrong since this was asked last, oldest first."""
        found = []
        while self._troubles:
            found.append(self._troubles.popleft())
        return found

    def stop(self) -> None:
        """Let it end in good order; raises what it said if that did not work."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise LakestreamError(f"the platform did not stop within {_STOP_S:.0f} s") from None
        self._heard_all()
        if code != 0:
            raise self._ending(code)

    def end_now(self) -> None:
        """Somebody is tired of waiting; nothing that was acknowledged is lost by it."""
        if self._process.returncode is None:
            self.was_killed = True
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """At once, unless it has ended; call it last."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._heard_all()
        self._log.close()

    def _ending(self, code: int) -> LakestreamError:
        kind = _ERROR_OF.get(code, LakestreamError)
        said = self._last_words or f"the platform ended with code {code}"
        return kind(said)

    def _heard_all(self) -> None:
        # A grandchild that is still alive may hold the pipe.
        for pump in self._pumps:
            pump.join(_LAST_WORDS_S)

    def _announce(self, line: str) -> None:
        with suppress(ValueError, KeyError, TypeError):
            told = json.loads(line)
            self._announced.put(Listening(told["kafka"], told["admin"]))

    def _hear(self, line: str) -> None:
        self._log.write(line)
        if found := _EVENT.match(line):
            self._troubles.append(found[2])
            if ended := _BROKER_ENDED.match(found[2]):
                self._failed_start = self._failed_start or self._ending(int(ended[1]))
        elif found := _SENTENCE.match(line):
            self._last_words = found[1]


class _LogFile(RotatingFileHandler):
    """Lines in a file that stays small; a disk that is full keeps nobody from going on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)

    def write(self, line: str) -> None:
        self.handle(logging.makeLogRecord({"msg": line}))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


def _pump(stream: IO[bytes], take: Callable[[str], None]) -> None:
    with stream:
        for line in stream:
            take(line.decode(errors="replace").rstrip("\n"))
