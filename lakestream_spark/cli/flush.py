"""`lakestream flush TOPIC`: have the running job commit everything acknowledged so far.

What always holds: it is done when every format of the topic's table has it, not before.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import click

from lakestream_spark.cli.asking import ask
from lakestream_spark.cli.options import Loaded, positive, settings_options
from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import LakestreamError, RedTable, Unavailable
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import reached
from lakestream_spark.metadata.jobs import COMPACTION
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings import Settings
from lakestream_spark.settings.storage import catalog_spec
from lakestream_spark.spark.scope import Scope

_POLL_S: Final = 0.1
_DELTA_POLL_S: Final = 0.3
_A_JOB_STARTS_S: Final = 30.0
_DELTA: Final = "delta"


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
    ends = ask(settings, lambda metadata: _flush(metadata, settings, topic, timeout))
    if as_json:
        click.echo(json.dumps({"topic": topic, "ends": ends}))
    else:
        shown = ", ".join(f"{partition}: {end}" for partition, end in sorted(ends.items()))
        click.echo(f"everything acknowledged of {topic} is in its table (ends {shown or 'none'})")


async def _flush(
    metadata: Metadata, settings: Settings, name: str, timeout_s: float
) -> Mapping[int, int]:
    topic = await metadata.topics.get(name)
    wanted = await metadata.backlog.ask_flush(topic.id)
    session_s = settings.compact.session_timeout_ms / 1000
    wait = FlushWait(metadata, SystemClock(), topic, timeout_s, session_s)
    await wait.for_table(wanted)
    if _DELTA in TopicConfig.of(topic.config).table_formats:
        # Here and not above: most topics have no Delta log, and pyiceberg takes a second to load.
        from lakestream_spark.cli.mirrored import is_mirrored
        from lakestream_spark.table.iceberg import StreamCatalog

        with closing(StreamCatalog.open(catalog_spec(settings))) as catalog:
            await wait.for_delta(lambda: is_mirrored(catalog, topic, wanted))
    return wanted


class FlushWait:
    """One wait, with one time-out; says why it will not happen as soon as that is known."""

    def __init__(
        self, metadata: Metadata, clock: Clock, topic: Topic, timeout_s: float, session_s: float
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._topic = topic
        self._timeout_s = timeout_s
        self._session_s = session_s
        self._began = self._seen_alive = clock.monotonic()

    async def for_table(self, wanted: Mapping[int, int]) -> None:
        """Until the table has it, by the ends that the metadata store knows."""
        while not reached(await self._metadata.backlog.table_ends(self._topic.id), wanted):
            for each in await self._metadata.problems.list(self._topic.id):
                raise RedTable(each.sentence, snapshot_id=each.snapshot_id, remedy=each.remedy)
            await self._check_jobs()
            if self._is_over:
                raise Unavailable(
                    "the compaction did not get there in time", seconds=self._timeout_s
                )
            await self._clock.sleep(_POLL_S)

    async def for_delta(self, is_there: Callable[[], bool]) -> None:
        """Until Delta has it too; a log that cannot be read may be mended meanwhile."""
        while True:
            why = "it has not followed"
            try:
                if await asyncio.to_thread(is_there):
                    return
            except LakestreamError as error:
                why = str(error)
            if self._is_over:
                raise Unavailable(
                    f"everything is in the Iceberg table, but Delta is late: {why}; "
                    "`lakestream maintain --once` brings it there",
                    seconds=self._timeout_s,
                )
            await self._clock.sleep(_DELTA_POLL_S)

    @property
    def _is_over(self) -> bool:
        return self._clock.monotonic() - self._began > self._timeout_s

    async def _check_jobs(self) -> None:
        """Raises when nobody is there who could do it."""
        now = self._clock.monotonic()
        live = await self._metadata.jobs.live(COMPACTION, self._session_s)
        scopes = [Scope(job=each.id, topics=str(each.about.get("topics", "*"))) for each in live]
        if any(scope.covers(self._topic.name) for scope in scopes):
            self._seen_alive = now
        elif scopes:
            taken = ", ".join(sorted({scope.topics for scope in scopes}))
            raise Unavailable(
                f"no running compaction covers the topic, only {taken}: "
                "start `lakestream up`, or `lakestream compact`"
            )
        if now - self._seen_alive > min(_A_JOB_STARTS_S, self._timeout_s):
            raise Unavailable(
                "no compaction is running: start `lakestream up`, or `lakestream compact`"
            )
