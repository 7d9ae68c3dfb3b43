"""`lakestream offsets TOPIC`: which offsets a snapshot of the table reaches, and the reverse."""

import json
from datetime import UTC, datetime

import click
from rich.table import Table as Grid

from lakestream_spark.cli.asking import partition_offset, table_of
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.output import cell, console, grid
from lakestream_spark.core.errors import NotFound
from lakestream_spark.settings import Settings
from lakestream_spark.table.snapshots import (
    Point,
    ends_of_snapshot,
    points,
    snapshot_named,
    snapshot_reaching,
)


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
        console().print(_grid(found))


def _find(settings: Settings, name: str, snapshot: str | None, offset: str | None) -> list[Point]:
    where = None if offset is None else partition_offset(offset, "--offset")
    _, table = table_of(settings, name)
    if snapshot is not None:
        return [ends_of_snapshot(table, snapshot_named(table, snapshot))]
    if where is None:
        return list(points(table))
    found = snapshot_reaching(table, *where)
    if found is None:
        raise NotFound("no snapshot reaches this offset yet", topic=name, offset=offset)
    return [found]


def _as_json(point: Point) -> dict[str, object]:
    return {
        "snapshot_id": point.snapshot_id,
        "timestamp_ms": point.timestamp_ms,
        "tags": point.tags,
        "ends": {str(partition): end for partition, end in sorted(point.ends.items())},
    }


def _grid(found: list[Point]) -> Grid:
    rows = grid("snapshot", "time (UTC)", "ends", "tags")
    for point in found:
        time = datetime.fromtimestamp(point.timestamp_ms / 1000, UTC)
        ends = ", ".join(f"{partition}: {end}" for partition, end in sorted(point.ends.items()))
        rows.add_row(
            str(point.snapshot_id),
            f"{time:%Y-%m-%d %H:%M:%S}",
            ends or "none",
            cell(", ".join(point.tags)),
        )
    return rows
