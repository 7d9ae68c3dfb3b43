"""One compaction in this process, from its settings to its end."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import parent_process
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Thread
from typing import Final

from lakestream_spark.cli.job_site import job_site
from lakestream_spark.cli.jobs import compact_job, maintain_job
from lakestream_spark.cli.progress import CompactView, shown
from lakestream_spark.cli.signals import stopped_by_signals
from lakestream_spark.core import metrics
from lakestream_spark.core.logs import configure, event
from lakestream_spark.settings import Settings
from lakestream_spark.spark.compact import drain, run
from lakestream_spark.spark.maintain import KIND as UPKEEP
from lakestream_spark.spark.maintain import run_maintenance
from lakestream_spark.spark.session import Session, session_when_asked
from lakestream_spark.spark.tally import Tally

_UPKEEP_ENDS_S: Final = 60.0
_log: Final = logging.getLogger(__name__)


@contextmanager
def checkpoint_folder(settings: Settings) -> Iterator[Path]:
    """The folder that is named, or one that goes with the process: losing it loses nothing."""
    if settings.compact.checkpoint is not None:
        yield Path(settings.compact.checkpoint).expanduser()
        return
    folder = Path(mkdtemp(prefix="lakestream-checkpoint-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_compaction(
    settings: Settings,
    *,
    topics: str = "*",
    until_drained: bool = False,
    with_upkeep: bool = False,
    session: Session | None = None,
) -> Tally:
    """Compact until a signal says stop, or until nothing is left; in a local Spark unless a session
    is given.

    With upkeep the same Spark looks after the tables as well, in a thread of its own.
    """
    log = settings.log
    configure(level=log.level, form=log.format, context={"job": "compact"})
    stop = Event()
    with ExitStack() as stack:
        stack.enter_context(stopped_by_signals(stop))
        _stop_with_parent(stop)
        own = settings.compact
        site = stack.enter_context(
            job_site(settings.broker.admin_host, own.admin_port, setting="compact.admin_port")
        )
        checkpoint = stack.enter_context(checkpoint_folder(settings))
        job = compact_job(settings, checkpoint=checkpoint, topics=topics)
        if session is None:
            ui_port = own.ui_port if own.ui_port >= 0 else None
            session = stack.enter_context(
                session_when_asked(job.catalog, master=own.master, ui_port=ui_port)
            )
        stack.enter_context(shown(log, CompactView(drains=until_drained)))
        event(_log, logging.INFO, "compaction starts", topics=topics, admin=f"http://{site}")
        if with_upkeep:
            stack.enter_context(_upkeep(settings, session, stop))
        return (drain if until_drained else run)(session, job, stop)


@contextmanager
def _upkeep(settings: Settings, session: Session, stop: Event) -> Iterator[None]:
    """Rounds of maintenance beside the compaction; ended before Spark is."""
    job = maintain_job(settings)

    def rounds() -> None:
        # What waits since the last stop goes to its table before any files are merged.
        stop.wait(job.every_s)
        while not stop.is_set():
            try:
                run_maintenance(session, job, stop)
            except Exception:
                # Nobody joins this thread to learn of it: the catalog may answer later.
                metrics.LOOP_FAILURES.of(UPKEEP).add()
                _log.exception("upkeep could not start, and is started again")
                stop.wait(job.every_s)

    thread = Thread(target=rounds, name="upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_UPKEEP_ENDS_S)


def _stop_with_parent(stop: Event) -> None:
    """A process that was started by another ends with it."""
    parent = parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            stop.set()

        Thread(target=watch, name="parent-watch", daemon=True).start()
