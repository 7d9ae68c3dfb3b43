"""`lakestream maintain`: look after the tables: merge, expire, collect, mirror."""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from threading import Event
from typing import Final

import click

from lakestream_spark.cli.job_site import job_site
from lakestream_spark.cli.jobs import maintain_job
from lakestream_spark.cli.options import Loaded, job_options, topics_option
from lakestream_spark.cli.progress import MaintainView, shown
from lakestream_spark.cli.signals import stopped_by_signals
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.logs import configure, event
from lakestream_spark.spark.maintain import maintain_once, run_maintenance
from lakestream_spark.spark.session import Session, session_when_asked
from lakestream_spark.table.upkeep.maintain import TopicReport

_log: Final = logging.getLogger(__name__)


def maintain_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `lakestream maintain` and the entry for spark-submit both take."""
    every = click.option(
        "--every",
        "every_s",
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help="Between two rounds; maintain.interval_ms unless given.",
    )
    once = click.option("--once", is_flag=True, help="One round with everything in it, then end.")
    topics = topics_option(help="Topics to look after, such as 'orders-*'.")
    return job_options("maintain")(topics(every(once(command))))


def maintain_and_tell(
    loaded: Loaded,
    topics: str,
    every_s: float | None,
    once: bool,
    session: Session | None = None,
) -> None:
    """Maintain, with a local Spark unless a session is given, and say what was done."""
    settings = loaded.settings
    configure(level=settings.log.level, form=settings.log.format, context={"job": "maintain"})
    job = maintain_job(settings, topics=topics, every_s=every_s)
    stop = Event()
    with ExitStack() as stack:
        stack.enter_context(stopped_by_signals(stop))
        own = settings.maintain
        site = stack.enter_context(
            job_site(settings.broker.admin_host, own.admin_port, setting="maintain.admin_port")
        )
        if session is None:
            master = settings.compact.master
            session = stack.enter_context(session_when_asked(job.catalog, master=master))
        stack.enter_context(shown(settings.log, MaintainView()))
        event(_log, logging.INFO, "maintenance starts", topics=topics, admin=f"http://{site}")
        reports = maintain_once(session, job, stop) if once else {}
        told = summary(reports) if once else [f"{run_maintenance(session, job, stop)} rounds"]
    for line in told:
        click.echo(line)
    refuse_failures(reports)


def summary(reports: Mapping[str, TopicReport]) -> list[str]:
    """A line for each topic for which something was done or left."""
    lines = []
    for name, report in sorted(reports.items()):
        done = [f"{number} {what}" for what, number in report.done.items()]
        failed = [f"{step} failed: {error}" for step, error in report.failed.items()]
        text = "; ".join([*done, *failed, *([report.left] if report.left else [])])
        lines.append(f"{name}: {text or 'nothing to do'}")
    return lines


def refuse_failures(reports: Mapping[str, TopicReport]) -> None:
    """Raises `Unavailable` when some topic was not looked after as it should be."""
    failed = [name for name, report in reports.items() if report.failed or report.has_failed]
    if failed:
        raise Unavailable("some topics could not be looked after", topics=sorted(failed))


@click.command()
@maintain_options
def maintain(loaded: Loaded, topics: str, every_s: float | None, once: bool) -> None:
    """Merge small files, expire snapshots, collect orphans, mirror Delta, apply retention.

    Runs until it is told to stop, beside any number of compactions; a local Spark starts when
    there is something to merge.
    """
    maintain_and_tell(loaded, topics, every_s, once)
