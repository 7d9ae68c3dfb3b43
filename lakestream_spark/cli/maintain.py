"""`lakestream maintain`: look after the tables: merge, expire, collect, mirror."""

from collections.abc import Mapping
from threading import Event

import click

from lakestream_spark.cli.compaction import stopped_by_signals
from lakestream_spark.cli.jobs import maintain_job
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.logs import configure
from lakestream_spark.spark.maintain import maintain_once, run_maintenance
from lakestream_spark.spark.session import session_when_asked
from lakestream_spark.table.upkeep.maintain import TopicReport


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
@settings_options
@click.option("--topics", default="*", metavar="PATTERN", help="Topics, such as 'orders-*'.")
@click.option(
    "--every", "every_s", type=click.FloatRange(min=0.1), default=60.0, help="Seconds between two."
)
@click.option("--once", is_flag=True, help="One round, then end.")
def maintain(loaded: Loaded, topics: str, every_s: float, once: bool) -> None:
    """Merge small files, expire snapshots, collect orphans, mirror Delta, apply retention."""
    settings = loaded.settings
    configure(level=settings.log.level, form=settings.log.format, context={"job": "maintain"})
    job = maintain_job(settings, topics=topics, every_s=every_s)
    stop = Event()
    master = settings.compact.master
    with stopped_by_signals(stop), session_when_asked(job.catalog, master=master) as session:
        if not once:
            rounds = run_maintenance(session, job, stop)
            click.echo(f"{rounds} rounds")
            return
        reports = maintain_once(session, job, stop)
    for line in summary(reports):
        click.echo(line)
    refuse_failures(reports)
