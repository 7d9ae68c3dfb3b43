"""Real ingress processes: start them, ask them, stop them, kill them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil

_ROOT = Path(__file__).parents[2]
START_S = 180.0
"""How long a start or a stop may take on a machine that does much else."""


class Listening(NamedTuple):
    """What a broker said of itself when it was ready."""

    node_id: int
    kafka: str
    admin: str

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the admin port."""
        try:
            with urlopen(self.admin + path, timeout=60) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


class Ingress:
    """`lakestream ingress`, or `lakestream up`, as a process of its own."""

    def __init__(
        self, folder: Path | str, *arguments: str, name: str = "ingress", flags: Sequence[str] = ()
    ) -> None:
        command = [sys.executable, "-m", "lakestream_spark", *flags, name, "--json"]
        command += ["--data", str(folder), "--port", "0", "--admin-port", "0", *arguments]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
        self.process = subprocess.Popen(
            command, cwd=_ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.log: list[str] = []
        self._lines: Queue[str] = Queue()
        self._pumps = [
            threading.Thread(target=_pump, args=(stream, take), daemon=True)
            for stream, take in (
                (self.process.stdout, self._lines.put),
                (self.process.stderr, self.log.append),
            )
        ]
        for pump in self._pumps:
            pump.start()

    def ready(self, count: int = 1) -> list[Listening]:
        """The next `count` brokers that say they are ready, by node id."""
        deadline = time.monotonic() + START_S
        found: list[Listening] = []
        while len(found) < count:
            try:
                line = self._lines.get(timeout=0.2)
            except Empty:
                assert self.process.poll() is None, "".join(self.log)
                assert time.monotonic() < deadline, "".join(self.log)
            else:
                found.append(Listening(**json.loads(line)))
        return sorted(found)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """The exit code; by then everything it said is in `log`."""
        code = self.process.wait(START_S)
        for pump in self._pumps:
            pump.join(START_S)
        return code

    def workers(self) -> list[psutil.Process]:
        """The broker processes below a parent, in the order they were started."""
        found: list[psutil.Process] = []
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # it ended just now
                if "resource_tracker" not in " ".join(child.cmdline()):
                    found.append(child)
        return found


@contextmanager
def ingress(
    folder: Path | str, *arguments: str, name: str = "ingress", flags: Sequence[str] = ()
) -> Iterator[Ingress]:
    """A process that is killed at the end if it still runs; `flags` come before the command."""
    started = Ingress(folder, *arguments, name=name, flags=flags)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            below = psutil.Process(started.process.pid).children(recursive=True)
            for process in [*below, psutil.Process(started.process.pid)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            started.wait()


def eventually(condition: Callable[[], Any], within_s: float = 120.0) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def _pump(stream: Any, take: Callable[[str], object]) -> None:
    for line in stream:
        take(line.decode())
    stream.close()
