"""`lakestream status`: every topic with its stream, its table and what is wrong with it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from statistics import median
from typing import Any, Final

import click
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from rich.console import Console
from rich.table import Table as Grid

from lakestream_spark.cli.asking import ask, require_data
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import LakestreamError, Transient
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.table.foreign import commit_id_of
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.outage import asking
from lakestream_spark.table.places import relative
from lakestream_spark.table.upkeep.folder import TableFolder

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_RED: Final = 1
_WIDE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """What lies in the store for a table."""

    files: int = 0
    bytes: int = 0
    median_bytes: int = 0
    retained_bytes: int = 0
    """Files that only older snapshots need, or nobody any more."""
    last_commit_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One topic; offsets are sums over its partitions."""

    topic: str
    partitions: int
    high_watermark: int
    table_end: int
    lag_records: int
    lag_seconds: float
    wal_bytes: int
    table: TableSize
    problems: tuple[str, ...]
    quarantined: int = 0
    """Batches that were set aside because their content contradicts their header."""

    @property
    def is_red(self) -> bool:
        return bool(self.problems)

    @property
    def state(self) -> str:
        return "red" if self.is_red else "well"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state}


@click.command()
@settings_options
@click.option("--topics", default="*", metavar="PATTERN", help="Topics, such as 'orders-*'.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.pass_context
def status(context: click.Context, loaded: Loaded, topics: str, as_json: bool) -> None:
    """Show every topic: stream, table, lag, bytes in WAL and table, and what is wrong with it.

    Ends with a code other than 0 when something is red.
    """
    found = topic_statuses(loaded.settings, topics)
    if as_json:
        click.echo(json.dumps({"topics": [each.as_json() for each in found]}))
    else:
        console = Console(highlight=False)
        # A file or a pipe has no width: one topic is one line there.
        console.width = console.width if console.is_terminal else _WIDE
        console.print(_grid(found))
        for each in found:
            for problem in each.problems:
                click.echo(f"{each.topic} is red: {problem}", err=True)
    if any(each.is_red for each in found):
        context.exit(_RED)


def topic_statuses(settings: Settings, pattern: str = "*") -> list[TopicStatus]:
    """The topics of a pattern by name."""
    require_data(settings)

    async def told(metadata: Metadata) -> list[TopicStatus]:
        topics = [each for each in await metadata.topics.list() if fnmatchcase(each.name, pattern)]
        backlogs = await metadata.backlog.pending()
        return [
            await _status(metadata, catalog, topic, backlogs.get(topic.id))
            for topic in sorted(topics, key=lambda each: each.name)
        ]

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


def _grid(found: Sequence[TopicStatus]) -> Grid:
    stream = ("topic", "high watermark", "table end", "lag", "WAL")
    table = ("table", "files (median)", "older", "last commit (UTC)", "set aside")
    grid = Grid(*stream, *table, "state", box=None, pad_edge=False)
    for each in found:
        own = each.table
        grid.add_row(
            each.topic,
            str(each.high_watermark),
            str(each.table_end),
            f"{each.lag_records} records, {each.lag_seconds:.0f} s",
            _bytes(each.wal_bytes),
            _bytes(own.bytes),
            f"{own.files} ({_bytes(own.median_bytes)})",
            _bytes(own.retained_bytes),
            "never" if own.last_commit_ms is None else _time(own.last_commit_ms),
            str(each.quarantined),
            each.state,
        )
    return grid


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _bytes(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"
