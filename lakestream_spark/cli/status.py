"""`lakestream status`: every topic with its stream, its table and what is wrong with it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from statistics import median
from typing import Final

import click
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.cli.asking import ask, require_data
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.output import console
from lakestream_spark.cli.stalls import with_stalls
from lakestream_spark.cli.status_output import show
from lakestream_spark.cli.topic_status import TableSize, TopicStatus
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import LakestreamError, NotFound, Transient
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.table.foreign import commit_id_of
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.outage import asking
from lakestream_spark.table.places import relative
from lakestream_spark.table.upkeep.folder import TableFolder

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
    keep up: then the sentence says what to do, and the command ends with code 1.
    """
    found = topic_statuses(loaded.settings, topics)
    if not found and topics != _ALL:
        raise NotFound(f"no topic matches {topics!r}: `lakestream topic list` shows what there is")
    if as_json:
        click.echo(json.dumps({"topics": [each.as_json() for each in found]}))
    elif not found:
        click.echo("no topics yet: `lakestream topic create NAME` makes one")
    else:
        _tell(found)
    if any(each.is_red for each in found):
        context.exit(_RED)


def _tell(found: Sequence[TopicStatus]) -> None:
    show(found, console())
    for each in found:
        for problem in each.problems:
            click.echo(f"{each.topic} is red: {problem}", err=True)


def topic_statuses(settings: Settings, pattern: str = _ALL) -> list[TopicStatus]:
    """The topics of a pattern by name."""
    require_data(settings)
    clock, session_s = SystemClock(), settings.compact.session_timeout_ms / 1000

    async def told(metadata: Metadata) -> list[TopicStatus]:
        topics = [each for each in await metadata.topics.list() if fnmatchcase(each.name, pattern)]
        backlogs = await metadata.backlog.pending()
        found = [
            await _status(metadata, catalog, topic, backlogs.get(topic.id))
            for topic in sorted(topics, key=lambda each: each.name)
        ]
        return await with_stalls(found, metadata.jobs, clock, session_s)

    with closing(StreamCatalog.open(catalog_spec(settings))) as catalog:
        return ask(settings, told)


async def _status(
    metadata: Metadata, catalog: StreamCatalog, topic: Topic, backlog: TopicBacklog | None
) -> TopicStatus:
    ends = (await metadata.tables.ends(topic.id)).values()
    wal = await metadata.topics.wal_bytes([topic.id])
    lag_ms = 0 if backlog is None else max(0, SystemClock().wall_ms() - backlog.oldest_ms)
    size, why = await _size_or_why(catalog, topic)
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


async def _size_or_why(catalog: StreamCatalog, topic: Topic) -> tuple[TableSize, tuple[str, ...]]:
    """One odd table is its own topic's sentence, and keeps no other from being shown."""
    layout = catalog.layout(topic.id, topic.name, topic.config)
    try:
        table = await asyncio.to_thread(catalog.load, layout)
        size = TableSize() if table is None else await asyncio.to_thread(_size, table)
    except Transient:
        raise
    except LakestreamError as error:
        return TableSize(), (f"the table cannot be looked at: {error}",)
    return size, ()


def _files(table: Table, snapshot: Snapshot) -> dict[str, int]:
    """The sizes of the snapshot's data files by path below the table's root, whoever wrote them."""
    return {
        relative(file.file_path, table.location()) or file.file_path: file.file_size_in_bytes
        for manifest in snapshot.manifests(table.io)
        if manifest.content is ManifestContent.DATA
        for file in (entry.data_file for entry in manifest.fetch_manifest_entry(table.io))
    }


def _size(table: Table) -> TableSize:
    with asking(table.name()):
        snapshot = table.current_snapshot()
        files = {} if snapshot is None else _files(table, snapshot)
        listed = TableFolder(table).list()
    sizes = list(files.values())
    ours = [each.timestamp_ms for each in table.snapshots() if commit_id_of(each) is not None]
    return TableSize(
        files=len(sizes),
        bytes=sum(sizes),
        median_bytes=int(median(sizes)) if sizes else 0,
        retained_bytes=sum(
            size for path, size in listed.items() if path.endswith(".parquet") and path not in files
        ),
        last_commit_ms=max(ours, default=None),
    )
