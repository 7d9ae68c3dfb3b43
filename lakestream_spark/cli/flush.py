"""`lakestream flush TOPIC`: have the running job commit everything acknowledged so far."""

import json
from collections.abc import Mapping
from typing import Final

import click

from lakestream_spark.cli.asking import ask
from lakestream_spark.cli.options import Loaded, positive, settings_options
from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import RedTable, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import reached

_POLL_S: Final = 0.1
_A_JOB_STARTS_S: Final = 30.0
_KIND: Final = "compact"


@click.command()
@click.argument("topic")
@settings_options
@click.option(
    "--timeout", type=positive, default=120.0, metavar="S", help="Give up after S seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print the table ends as JSON.")
def flush(loaded: Loaded, topic: str, timeout: float, as_json: bool) -> None:
    """Have the running compaction commit everything acknowledged so far, and wait."""
    settings = loaded.settings
    session_s = settings.compact.session_timeout_ms / 1000
    ends = ask(settings, lambda metadata: _flush(metadata, topic, timeout, session_s))
    if as_json:
        click.echo(json.dumps({"topic": topic, "ends": ends}))
    else:
        shown = ", ".join(f"{partition}: {end}" for partition, end in sorted(ends.items()))
        click.echo(f"everything acknowledged of {topic} is in its table (ends {shown or 'none'})")


async def _flush(
    metadata: Metadata, name: str, timeout_s: float, session_s: float
) -> Mapping[int, int]:
    topic = await metadata.topics.get(name)
    wanted = await metadata.backlog.ask_flush(topic.id)
    await _wait(metadata, SystemClock(), topic.id, wanted, timeout_s, session_s)
    return wanted


async def _wait(
    metadata: Metadata,
    clock: Clock,
    topic_id: TopicId,
    wanted: Mapping[int, int],
    timeout_s: float,
    session_s: float,
) -> None:
    """Until the table has it; says why it will not happen as soon as that is known."""
    began = seen_alive = clock.monotonic()
    while not reached(await metadata.backlog.table_ends(topic_id), wanted):
        for problem in await metadata.problems.list(topic_id):
            raise RedTable(problem.sentence, snapshot_id=problem.snapshot_id, remedy=problem.remedy)
        now = clock.monotonic()
        if await metadata.jobs.live(_KIND, session_s):
            seen_alive = now
        if now - seen_alive > min(_A_JOB_STARTS_S, timeout_s):
            raise Unavailable(
                "no compaction is running: start `lakestream up`, or `lakestream compact`"
            )
        if now - began > timeout_s:
            raise Unavailable("the compaction did not get there in time", seconds=timeout_s)
        await clock.sleep(_POLL_S)
