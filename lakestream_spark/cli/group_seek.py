"""`lakestream group seek GROUP`: move a consumer group to a place in the stream."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Final

import click

from lakestream_spark.cli.asking import partition_offset, require_data, time_ms
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import OffsetOutOfRange
from lakestream_spark.groups.outside import OutsideCommits
from lakestream_spark.settings import Settings
from lakestream_spark.settings.installation import installation_of
from lakestream_spark.spark.reading.installation import Opened
from lakestream_spark.spark.reading.options import (
    AtSnapshot,
    AtTime,
    Edge,
    Exact,
    Place,
    ReadOptions,
)
from lakestream_spark.spark.reading.place import Logs, logs, resolve


def _named(context: click.Context, parameter: click.Parameter, name: str) -> str:  # noqa: ARG001
    if not name:
        raise click.BadParameter("a group has a name; this one is empty")
    return name


group_argument: Final[Callable[[Callable[..., None]], Callable[..., None]]] = click.argument(
    "name", metavar="GROUP", callback=_named
)


@click.command()
@group_argument
@click.option("--topic", required=True, help="The topic whose offsets are set.")
@settings_options
@click.option("--snapshot", metavar="ID_OR_TAG", help="To the ends of a snapshot of the table.")
@click.option("--to-earliest", is_flag=True, help="To the log start.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record at or after a time: ISO 8601, UTC unless it names a zone, or ms.",
)
@click.option(
    "--to-offset",
    "to_offsets",
    multiple=True,
    metavar="P:N",
    help="To offset N of partition P; repeatable, other partitions stay.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the offsets as JSON.")
def seek(
    loaded: Loaded,
    name: str,
    topic: str,
    snapshot: str | None,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    to_offsets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Set a group's committed offsets, so that it continues there.

    With --snapshot it continues exactly where a query of that snapshot ended. The group must have
    no members.
    """
    places = _places(snapshot, to_earliest, to_latest, to_datetime, topic, to_offsets)
    if len(places) != 1:
        raise click.UsageError(
            "give one of --snapshot, --to-earliest, --to-latest, --to-datetime, --to-offset"
        )
    offsets = _seek(loaded.settings, name, topic, places[0])
    if as_json:
        click.echo(json.dumps({"group": name, "topic": topic, "offsets": offsets}))
    else:
        shown = ", ".join(f"{partition}: {offset}" for partition, offset in offsets.items())
        click.echo(f"group {name} continues {topic} at {shown}")


def _places(
    snapshot: str | None,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    topic: str,
    to_offsets: Sequence[str],
) -> list[Place]:
    offsets = dict(partition_offset(text, "--to-offset") for text in to_offsets)
    asked: list[Place | None] = [
        None if snapshot is None else AtSnapshot(snapshot),
        Edge.EARLIEST if to_earliest else None,
        Edge.LATEST if to_latest else None,
        None if to_datetime is None else AtTime(time_ms(to_datetime, "--to-datetime")),
        Exact({topic: offsets}) if offsets else None,
    ]
    return [place for place in asked if place is not None]


def _seek(settings: Settings, group_id: str, name: str, place: Place) -> Mapping[int, int]:
    require_data(settings)
    with closing(Opened(installation_of(settings))) as opened:
        found = logs(opened, ReadOptions(topics=(name,), starting=place))
        if isinstance(place, Exact):
            offsets = {p: n for p, n in place.offsets[name].items() if not isinstance(n, Edge)}
        else:
            offsets = dict(resolve(opened, place, found)[name].offsets)
        _check(offsets, name, found)
        commits = OutsideCommits(opened.metadata, SystemClock())
        opened.loop.run(commits.commit(group_id, found[name].topic, offsets))
    return dict(sorted(offsets.items()))


def _check(offsets: Mapping[int, int], name: str, found: Logs) -> None:
    """A consumer that finds its offset outside the log would start somewhere else."""
    for partition, offset in offsets.items():
        borders = found[name].borders.get(partition)
        if borders is None:
            raise OffsetOutOfRange("the topic has no such partition", partition=partition)
        if not borders.log_start <= offset <= borders.high_watermark:
            raise OffsetOutOfRange(
                "the offset is outside the log",
                partition=partition,
                offset=offset,
                log_start=borders.log_start,
                high_watermark=borders.high_watermark,
            )
