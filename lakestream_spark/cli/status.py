"""`lakestream status`: every topic with its stream, its table and what is wrong with it."""

import json
from collections.abc import Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from typing import Final

import click

from lakestream_spark.cli.asking import ask, require_data
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.output import console
from lakestream_spark.cli.stalls import with_stalls
from lakestream_spark.cli.status_output import show
from lakestream_spark.cli.table_sizes import TableSizes
from lakestream_spark.cli.topic_status import TopicStatus
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import NotFound, Transient
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec

_RED: Final = 1
_ALL: Final = "*"


@click.command()
@settings_options
@click.option("--topics", default=_ALL, metavar="PATTERN", help="Topics, such as 'orders-*'.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.pass_context
def status(context: click.Context, loaded: Loaded, topics: str, as_json: bool) -> None:
    """Show every topic: stream, table, lag, bytes in WAL and table, and what is wrong with it.

    A topic is late when its table is behind by twice its lakestream.table.lag.ms and 5 s. It is red
    when its table cannot go on, or is late while no compaction runs or the one that runs does not
    keep up: then the sentence says what to do, and the command ends with code 1. While the catalog
    does not answer the tables' figures are unknown, and it ends with code 3.

    Offsets are summed over a topic's partitions; `lakestream topic describe` shows each.
    """
    found, trouble = topic_statuses(loaded.settings, topics)
    if not found and topics != _ALL:
        raise NotFound(f"no topic matches {topics!r}: `lakestream topic list` shows what there is")
    if as_json:
        click.echo(json.dumps({"topics": [each.as_json() for each in found]}))
    elif not found:
        click.echo("no topics yet: `lakestream topic create NAME` makes one")
    else:
        _tell(found)
    if trouble is not None:
        raise trouble
    if any(each.is_red for each in found):
        context.exit(_RED)


def _tell(found: Sequence[TopicStatus]) -> None:
    show(found, console())
    for each in found:
        for problem in each.problems:
            click.echo(f"{each.topic} is red: {problem}", err=True)


def topic_statuses(
    settings: Settings, pattern: str = _ALL
) -> tuple[list[TopicStatus], Transient | None]:
    """The topics of a pattern by name, and why not all is known of their tables."""
    require_data(settings)
    clock, session_s = SystemClock(), settings.compact.session_timeout_ms / 1000

    async def told(metadata: Metadata) -> list[TopicStatus]:
        topics = [each for each in await metadata.topics.list() if fnmatchcase(each.name, pattern)]
        backlogs = await metadata.backlog.pending()
        found = [
            await _status(metadata, sizes, topic, backlogs.get(topic.id))
            for topic in sorted(topics, key=lambda each: each.name)
        ]
        return await with_stalls(found, metadata.jobs, clock, session_s)

    with closing(TableSizes(catalog_spec(settings))) as sizes:
        return ask(settings, told), sizes.trouble


async def _status(
    metadata: Metadata, sizes: TableSizes, topic: Topic, backlog: TopicBacklog | None
) -> TopicStatus:
    ends = (await metadata.tables.ends(topic.id)).values()
    wal = await metadata.topics.wal_bytes([topic.id])
    lag_ms = 0 if backlog is None else max(0, SystemClock().wall_ms() - backlog.oldest_ms)
    size, why = await sizes.of(topic)
    problems = await metadata.problems.list(topic.id)
    return TopicStatus(
        topic=topic.name,
        partitions=topic.partitions,
        high_watermark=sum(each.high_watermark for each in ends),
        table_end=sum(each.table_end for each in ends),
        lag_records=sum(each.last_stable - each.table_end for each in ends),
        lag_seconds=lag_ms / 1000,
        lag_target_seconds=TopicConfig.of(topic.config).table_lag_ms / 1000,
        wal_bytes=sum(wal.values()),
        table=size,
        problems=(*(f"{each.sentence}; {each.remedy}" for each in problems), *why),
        quarantined=len(await metadata.tables.quarantined(topic.id)),
    )
