"""Brokers over one store, each under a node id and a port of its own, for ever the same.

Nobody takes the port of a broker while it is dead: see `ports`.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from tests.support.ingress_process import Ingress
from tests.support.ports import free_port

NODES: Final = (1, 2, 3)
SESSION_S: Final = 2.0
_GRAVE: Final = re.compile(r"Traceback|Z (error|critical) |unexpected")
_LOST_PLACE: Final = "the broker stops: it lost its place"
_KILLED: Final = -9
_TAKEN_FOR_DEAD: Final = 3
"""The exit code of a broker that slept too long: it may be started again, and is."""


class _Broker(Ingress):
    """One whose readiness can be asked for without waiting."""

    def is_ready(self) -> bool:
        return not self._lines.empty()


class Brokers:
    """The processes, and what was done to them."""

    def __init__(self, data: Path | str, ports: dict[int, int], settings: Sequence[str]) -> None:
        self._data = data
        self._ports = ports
        self._settings = settings
        self._running: dict[int, _Broker] = {}
        self._unready: set[int] = set()
        self._asleep: set[int] = set()
        self._logs: list[list[str]] = []
        self.counts: Counter[str] = Counter()

    def complaints(self) -> list[str]:
        """What brokers said of errors in all their lives, but for having lost their place."""
        lines = [line.strip() for log in self._logs for line in log]
        grave = [line for line in lines if _GRAVE.search(line)]
        return [line for line in grave if _LOST_PLACE not in line]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def awake(self) -> list[int]:
        return [node for node in self._running if node not in self._asleep]

    def serve(self) -> bool:
        """Whether at least one is past its start and awake."""
        said = {node for node in self._unready if self._running[node].is_ready()}
        return bool(set(self.awake()) - (self._unready - said))

    def start(self, node: int) -> None:
        assert node not in self._running
        self._running[node] = _Broker(
            self._data,
            *("--port", str(self._ports[node]), "--set", f"broker.id={node}"),
            *self._settings,
        )
        self._logs.append(self._running[node].log)
        self._unready.add(node)
        self.counts["broker starts"] += 1

    def kill(self, node: int) -> None:
        code = self._end(node, signal.SIGKILL)
        if code == _KILLED:
            self.counts["kills"] += 1

    def stop(self, node: int) -> None:
        """In good order; one that has just begun to start may not know how yet."""
        young = node in self._unready
        code = self._end(node, signal.SIGTERM)
        assert code in (0, _TAKEN_FOR_DEAD, *([-signal.SIGTERM] if young else [])), (node, code)
        self.counts["graceful stops"] += 1

    def fall_asleep(self, node: int) -> None:
        self._running[node].process.send_signal(signal.SIGSTOP)
        self._asleep.add(node)
        self.counts["pauses"] += 1

    def bring_back(self, node: int) -> None:
        """Whatever had been done to it."""
        if node in self._asleep:
            self._running[node].process.send_signal(signal.SIGCONT)
            self._asleep.discard(node)
        elif node not in self._running:
            self.start(node)

    def look_after(self) -> None:
        """Start those again that found that they had been taken for dead."""
        for node, process in list(self._running.items()):
            code = process.process.poll()
            if code is None:
                continue
            assert code == _TAKEN_FOR_DEAD, f"broker {node}: {code}\n{''.join(process.log)[-4000:]}"
            self.counts["taken for dead"] += 1
            del self._running[node]
            self.start(node)

    def heal(self) -> None:
        """All run, and all are ready."""
        for node in self._ports:
            self.bring_back(node)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        while self._unready:
            self.look_after()
            node = next(iter(self._unready))
            try:
                self._running[node].ready()
            except AssertionError:
                if self._running[node].process.poll() != _TAKEN_FOR_DEAD:
                    raise
            else:
                self._unready.discard(node)

    def end(self) -> None:
        for process in self._running.values():
            process.process.kill()
            process.wait()

    def _end(self, node: int, number: int) -> int:
        self._unready.discard(node)
        return self._running.pop(node).stop(number)


def three_brokers(folder: Path, settings: Sequence[str]) -> AbstractContextManager[Brokers]:
    return some_brokers(folder, settings, NODES)


@contextmanager
def some_brokers(
    data: Path | str, settings: Sequence[str], nodes: Sequence[int], conf: Path | None = None
) -> Iterator[Brokers]:
    """All of them serve; whatever runs at the end is killed."""
    ports = {node: free_port() for node in nodes}
    quick = (
        "broker.heartbeat_interval_ms=250",
        f"broker.session_timeout_ms={SESSION_S * 1000:.0f}",
    )
    chosen = [word for setting in (*quick, *settings) for word in ("--set", setting)]
    more = ["--conf", str(conf)] if conf else []
    brokers = Brokers(data, ports, [*chosen, *more])
    try:
        # The first of them makes the metadata store: alone, as one would.
        brokers.start(nodes[0])
        brokers.wait_until_ready()
        brokers.heal()
        yield brokers
    finally:
        brokers.end()
