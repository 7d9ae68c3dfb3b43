"""Brokers, and the compaction beside them, as processes that a parent starts and watches.

What always holds: a worker is a broker with its own port and node id and shares nothing but the
stores; a signal to stop reaches every worker, also one that starts just then, and one whose parent
dies stops by itself; a worker that ended unasked, however well, is started again after a growing
pause, on the port it had; one that was refused or replaced, and a broker that finds its data
damaged before it serves, is not, and ends them all.
"""

import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final, NamedTuple, TypeAlias

import click

from lakestream_spark.cli.announce import Announce, Ports
from lakestream_spark.cli.exits import run
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.core.logs import configure, event
from lakestream_spark.settings import Settings

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_STEADY_S: Final = 60.0
_LOOK_S: Final = 0.5
_LAST_PORT: Final = 65_535
COMPACTION_CODES: Final = (2, 4)
"""Refused, replaced: starting again would change nothing."""
BROKER_CODES: Final = (*COMPACTION_CODES, 5)
"""And damaged, as long as it does not serve: who cannot start will not be able to later."""
RESTARTED: Final = "a process ended by itself and is started again"

_log: Final = logging.getLogger(__name__)

Main: TypeAlias = Callable[[Settings, Announce, Connection], None]


class Role(NamedTuple):
    """What a process is for."""

    name: str
    main: Main
    final: Sequence[int] = BROKER_CODES
    """The codes of a start that is not tried again."""


def supervise(
    settings: Settings,
    count: int,
    announce: Announce,
    *,
    with_compaction: bool = False,
    debug: bool = False,
) -> int:
    """Run `count` brokers until all have ended; the exit code of the first that failed, or 0.

    With `debug` each process shows the traceback of its error.
    """
    _check_shared(settings)
    _check_ports(settings, count)
    log = settings.log
    configure(level=log.level, form=log.format, context={"broker": "supervisor"})
    own = _quiet(settings) if with_compaction else settings
    workers = [_broker(_nth(own, index), announce, debug) for index in range(count)]
    if with_compaction:
        main = partial(_compact, debug=debug)
        role = Role(name="compaction", main=main, final=COMPACTION_CODES)
        workers.append(Worker(settings, announce, role))

    def stop(*_: object) -> None:
        for worker in workers:
            worker.stop()

    previous = [signal.signal(number, stop) for number in _SIGNALS]
    try:
        return watch(workers, stop)
    finally:
        for number, handler in zip(_SIGNALS, previous, strict=True):
            signal.signal(number, handler)


def _broker(settings: Settings, announce: Announce, debug: bool) -> "Worker":
    role = Role(name=f"broker-{settings.broker.id}", main=partial(_main, debug=debug))
    return Worker(settings, announce, role)


def watch(workers: Sequence["Worker"], stop: Callable[[], None]) -> int:
    """Start them and wait until all have ended; `stop` is called when one has failed for good."""
    code = 0
    for worker in workers:
        worker.start()
    while any(not worker.ended for worker in workers):
        pauses = [worker.pause_s() for worker in workers if not worker.ended]
        wait([w.sentinel for w in workers if w.sentinel is not None], min(pauses))
        for worker in workers:
            worker.tend()
        failed = [worker.code for worker in workers if worker.code in BROKER_CODES]
        if failed and code == 0:
            code = failed[0] or 0
            stop()
    return code


class Worker:
    """One process and what the parent knows of it."""

    def __init__(self, settings: Settings, announce: Announce, role: Role) -> None:
        self._settings = settings
        self._announce = announce
        self._role = role
        self._process: SpawnProcess | None = None
        self._ready: Connection | None = None
        self._started_at = 0.0
        self._restart_at: float | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._stopping = False
        self.code: int | None = None
        """The code of an end that is final."""

    @property
    def ended(self) -> bool:
        return self._process is None and self._restart_at is None

    @property
    def sentinel(self) -> int | None:
        return None if self._process is None else self._process.sentinel

    def pause_s(self) -> float:
        """How long nothing has to be done for this worker unless its process ends."""
        if self._restart_at is None:
            return 3600.0
        # Not longer than a look: a signal may say meanwhile that nobody is to be started.
        return min(_LOOK_S, max(0.0, self._restart_at - time.monotonic()))

    def start(self) -> None:
        self._restart_at = None
        if not self._stopping:
            self._spawn()
        # A signal that came before the process was there found nobody to stop.
        if self._stopping:
            self.stop()

    def _spawn(self) -> None:
        # Spawned, not forked: a worker starts clean, without the parent's threads and signals.
        context = get_context("spawn")
        self._ready, told = context.Pipe(duplex=False)
        self._started_at = time.monotonic()
        self._process = context.Process(
            target=self._role.main,
            args=(self._settings, self._announce, told),
            name=self._role.name,
        )
        self._process.start()
        told.close()

    def stop(self) -> None:
        self._stopping = True
        self._restart_at = None
        if self._process is not None and self._process.is_alive():
            self._process.terminate()

    def tend(self) -> None:
        """Notice that the process has ended, and start it again when it is time."""
        if self._process is not None and not self._process.is_alive():
            self._gone()
        elif self._restart_at is not None and time.monotonic() >= self._restart_at:
            self.start()

    def _gone(self) -> None:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode
        self._process = None
        served = self._keep_ports()
        if self._stopping or code in (COMPACTION_CODES if served else self._role.final):
            self.code = code
            return
        if time.monotonic() - self._started_at > _STEADY_S:
            self._pause_s = _FIRST_PAUSE_S
        event(
            _log,
            logging.ERROR,
            RESTARTED,
            process=self._role.name,
            code=code,
            pause_s=self._pause_s,
        )
        self._restart_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _keep_ports(self) -> bool:
        """Whether it listened; a free port was chosen once, and clients know it."""
        assert self._ready is not None
        with self._ready, suppress(EOFError):
            if self._ready.poll():
                ports: Ports = self._ready.recv()
                self._settings = _on(self._settings, self._settings.broker.id, ports)
                return True
        return False


def _main(settings: Settings, announce: Announce, told: Connection, *, debug: bool) -> None:
    """A worker process, from its first line to its exit code."""
    # Here and not above: the parent starts in a moment and stays small without it.
    from lakestream_spark.cli.worker import run_worker

    command = click.Command("ingress", callback=lambda: run_worker(settings, announce, told.send))
    raise SystemExit(run(command, [], debug=debug, attended=False))


def _compact(
    settings: Settings,
    announce: Announce,  # noqa: ARG001
    told: Connection,
    *,
    debug: bool,
) -> None:
    """The compaction's process; nobody waits for its ports."""
    told.close()
    # Here and not above: the parent and the brokers need no Spark.
    from lakestream_spark.cli.compaction import run_compaction

    def compact() -> None:
        run_compaction(settings, with_upkeep=True)

    command = click.Command("compact", callback=compact)
    raise SystemExit(run(command, [], debug=debug, attended=False))


def _quiet(settings: Settings) -> Settings:
    """Beside what the compaction shows to a person, brokers tell what is wrong only."""
    from lakestream_spark.cli.progress import is_watched

    if settings.log.level != "info" or not is_watched(settings.log):
        return settings
    return settings.model_copy(update={"log": settings.log.model_copy(update={"level": "warning"})})


def _nth(settings: Settings, index: int) -> Settings:
    """The settings of the worker `index`: the next node id and, unless free, the next ports."""
    own = settings.broker
    ports = Ports(*(port + index if port else 0 for port in (own.port, own.admin_port)))
    return _on(settings, own.id + index, ports)


def _on(settings: Settings, node_id: int, ports: Ports) -> Settings:
    changes = {"id": node_id, "port": ports.kafka, "admin_port": ports.admin}
    return settings.model_copy(update={"broker": settings.broker.model_copy(update=changes)})


def _check_shared(settings: Settings) -> None:
    places = {"metadata.url": settings.metadata.url, "store.url": settings.store.url}
    places["wal.latency.url"] = settings.wal.latency.url
    for key, url in places.items():
        if url.startswith("memory://") or url in ("sqlite://", "sqlite:///"):
            raise Misconfigured(f"several workers cannot share {key} = {url}: it is in memory")


def _check_ports(settings: Settings, count: int) -> None:
    first = {"broker.port": settings.broker.port, "broker.admin_port": settings.broker.admin_port}
    for key, port in first.items():
        last = port + count - 1
        if port and last > _LAST_PORT:
            raise Misconfigured(
                f"{count} workers need ports up to {last} from {key} = {port} on, and the last "
                f"is {_LAST_PORT}: begin lower, or with 0 for free ones"
            )
