"""The jobs of a chaos run on tables: processes that are killed, put to sleep and robbed.

What always holds: a job never ends by itself, whatever was done to others or to parts of it; when
its driver is killed, everything below it goes too, as on a host that dies.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import psutil

_ROOT: Final = Path(__file__).parents[2]
_STOP_S: Final = 300.0
_COMMITTED: Final = " committed "


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How jobs are started: the words after the interpreter, for a job's name and its life."""

    name: str
    words: Sequence[str]
    checkpoint: str | None = None
    """The setting that names the checkpoint's folder, if such jobs have one."""
    seeded: str | None = None
    """The flag that takes a seed, if they have one."""


@dataclass(slots=True, kw_only=True)
class JobSeat:
    """A place for a job that comes and goes; its lives share a checkpoint and a log file."""

    name: str
    kind: Kind
    folder: Path
    random: Random
    process: subprocess.Popen[bytes] | None = None
    asleep: list[psutil.Process] = field(default_factory=list)
    _log_begins: int = 0

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"{self.name}.checkpoint"

    @property
    def is_awake(self) -> bool:
        return self.process is not None and not self.asleep

    @property
    def has_committed(self) -> bool:
        """In this life."""
        with self.log.open("rb") as stream:
            stream.seek(self._log_begins)
            return _COMMITTED.encode() in stream.read()

    def start(self) -> None:
        assert self.process is None
        command = [sys.executable, "-m", *self.kind.words]
        if self.kind.checkpoint is not None:
            command += ["--set", f"{self.kind.checkpoint}={self.checkpoint}"]
        if self.kind.seeded is not None:
            command += [self.kind.seeded, str(self.random.randrange(1 << 32))]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
        with self.log.open("ab") as log:
            self._log_begins = log.tell()
            self.process = subprocess.Popen(
                command, cwd=_ROOT, env=environ, stdin=subprocess.PIPE, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """The driver first, so that nothing below it can tell it anything any more."""
        assert self.process is not None
        below = self._below()
        self.process.kill()
        for each in below:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(below, _STOP_S)
        self._ended()

    def kill_workers(self) -> int:
        """Some of the Python processes that Spark runs beside the driver; how many."""
        workers = [each for each in self._below() if _is_python(each)]
        if not workers:
            return 0
        chosen = self.random.sample(workers, self.random.randint(1, len(workers)))
        for each in chosen:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        return len(chosen)

    def fall_asleep(self) -> None:
        """The driver alone, or all of it."""
        assert self.process is not None
        below = self._below() if self.random.random() < 0.5 else []
        self.asleep = [psutil.Process(self.process.pid), *below]
        for each in self.asleep:
            with suppress(psutil.NoSuchProcess):
                each.suspend()

    def wake(self) -> None:
        for each in reversed(self.asleep):
            with suppress(psutil.NoSuchProcess):
                each.resume()
        self.asleep = []

    def lose_checkpoint(self) -> bool:
        """Whether there was one."""
        assert self.process is None
        if not self.checkpoint.exists():
            return False
        shutil.rmtree(self.checkpoint)
        return True

    def stop(self) -> None:
        """In good order; one that has said nothing yet may not know how."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(_STOP_S)
        unborn = code == -signal.SIGTERM and self.log.stat().st_size == self._log_begins
        assert code == 0 or unborn, f"{self.name} ended with {code}: {self.last_words()}"
        self._ended()

    def check(self) -> None:
        code = None if self.process is None else self.process.poll()
        assert code is None, f"{self.name} ended by itself with {code}: {self.last_words()}"

    def last_words(self) -> str:
        return self.log.read_text()[-6000:]

    def _below(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _ended(self) -> None:
        assert self.process is not None
        self.process.wait(_STOP_S)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process, self.asleep = None, []


class Jobs:
    """All of them, and what was done to them."""

    def __init__(self, seats: Sequence[JobSeat], maintainer: JobSeat | None = None) -> None:
        self.seats = seats
        self.maintainer = maintainer
        self.counts: Counter[str] = Counter()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Whatever runs at the end is killed."""
        try:
            for seat in self.seats:
                self.start(seat)
            yield
        finally:
            for seat in self._all():
                if seat.process is not None:
                    seat.kill()

    def start(self, seat: JobSeat) -> None:
        if seat.process is None:
            seat.start()
            self.counts[f"{seat.kind.name} starts"] += 1

    def look_after(self) -> None:
        for seat in self._all():
            seat.check()

    def heal(self) -> None:
        """The compactions run and are awake; the maintainer has done its work."""
        for seat in self.seats:
            seat.wake()
            self.start(seat)
        if self.maintainer is not None and self.maintainer.process is not None:
            self.maintainer.stop()

    def stop(self) -> None:
        for seat in self.seats:
            seat.stop()

    def errors(self) -> Counter[str]:
        """How often the jobs said which kind of error, and what upkeep did, for the report."""
        lines = [line for seat in self._all() if seat.log.exists() for line in _lines(seat.log)]
        return Counter(
            {
                "queries that ended": sum("the query ended" in line for line in lines),
                "tables taken over": sum("another job took over" in line for line in lines),
                **{what: _told(lines, what) for what in ("files merged", "expired snapshots")},
            }
        )

    def _all(self) -> list[JobSeat]:
        return [*self.seats, *([self.maintainer] if self.maintainer else [])]


def _told(lines: Sequence[str], what: str) -> int:
    """The sum of what upkeep said under this name."""
    found = [re.search(rf"\b{what}\b.*\bnumber=(\d+)", line) for line in lines]
    return sum(int(each[1]) for each in found if each)


def _lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()


def _is_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name() and bool(process.cmdline())
    except psutil.NoSuchProcess:
        return False
