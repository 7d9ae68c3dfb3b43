"""`lakestream offsets TOPIC`: which offsets a snapshot of the table reaches, and the reverse."""

import asyncio
import json
import re
from datetime import UTC, datetime
from typing import Final

import click
from rich.console import Console
from rich.table import Table as Grid

from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import NotFound
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.snapshots import (
    Point,
    ends_of_snapshot,
    points,
    snapshot_named,
    snapshot_reaching,
)

_PLACE: Final = re.compile(r"(\d+):(\d+)")


@click.command()
@click.argument("topic")
@settings_options
@click.option("--snapshot", metavar="ID_OR_TAG", help="The ends that this snapshot reaches.")
@click.option("--offset", metavar="P:N", help="The snapshot that reaches offset N of partition P.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def offsets(
    loaded: Loaded, topic: str, snapshot: str | None, offset: str | None, as_json: bool
) -> None:
    """Show which offsets a snapshot of a table reaches, or which snapshot reaches an offset.

    Without options it lists every snapshot that is kept. The end of a partition is the first
    offset that the snapshot does not have yet.
    """
    if snapshot is not None and offset is not None:
        raise click.UsageError("give --snapshot or --offset, not both")
    found = _find(loaded.settings, topic, snapshot, offset)
    if as_json:
        click.echo(json.dumps({"topic": topic, "snapshots": [_as_json(each) for each in found]}))
    else:
        Console(highlight=False, soft_wrap=True).print(_grid(found))


def _find(settings: Settings, name: str, snapshot: str | None, offset: str | None) -> list[Point]:
    place = None if offset is None else _place(offset)
    topic = asyncio.run(_topic(settings.metadata.url, name))
    catalog = StreamCatalog.open(catalog_spec(settings))
    try:
        table = catalog.load(catalog.layout(topic.id, topic.name, topic.config))
    finally:
        catalog.close()
    if table is None:
        raise NotFound("the topic has no table yet", topic=name)
    if snapshot is not None:
        return [ends_of_snapshot(table, snapshot_named(table, snapshot))]
    if place is None:
        return list(points(table))
    found = snapshot_reaching(table, *place)
    if found is None:
        raise NotFound("no snapshot reaches this offset yet", topic=name, offset=offset)
    return [found]


def _place(text: str) -> tuple[int, int]:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not PARTITION:OFFSET", param_hint="--offset")
    return int(found[1]), int(found[2])


async def _topic(url: str, name: str) -> Topic:
    metadata = await open_metadata(url, clock=SystemClock())
    try:
        return await metadata.topics.get(name)
    finally:
        await metadata.close()


def _as_json(point: Point) -> dict[str, object]:
    return {
        "snapshot_id": point.snapshot_id,
        "timestamp_ms": point.timestamp_ms,
        "tags": point.tags,
        "ends": {str(partition): end for partition, end in sorted(point.ends.items())},
    }


def _grid(found: list[Point]) -> Grid:
    grid = Grid("snapshot", "time (UTC)", "ends", "tags", box=None, pad_edge=False)
    for point in found:
        time = datetime.fromtimestamp(point.timestamp_ms / 1000, UTC)
        ends = ", ".join(f"{partition}: {end}" for partition, end in sorted(point.ends.items()))
        grid.add_row(
            str(point.snapshot_id),
            f"{time:%Y-%m-%d %H:%M:%S}",
            ends or "none",
            ", ".join(point.tags),
        )
    return grid
