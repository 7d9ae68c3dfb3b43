"""`lakestream group`: list, describe, move and delete consumer groups, as the brokers know them."""

import json
from collections.abc import Sequence
from typing import Any

import click

from lakestream_spark.cli.broker_address import bootstrap, broker_option
from lakestream_spark.cli.consent import require_consent
from lakestream_spark.cli.group_seek import group_argument, seek
from lakestream_spark.cli.group_state import Groups, GroupState, PartitionLag
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.output import cell, console, grid, titled

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


@click.group()
def group() -> None:
    """List, describe, move and delete consumer groups."""


group.add_command(seek)


@group.command("list")
@settings_options
@broker_option
@as_json_option
def list_(loaded: Loaded, broker: str | None, as_json: bool) -> None:
    """List all groups with their state."""
    found = Groups(bootstrap(loaded.settings, broker)).all()
    if as_json:
        click.echo(json.dumps([_brief(each) for each in found]))
        return
    rows = grid("group", "state", "members", "topics")
    for each in found:
        topics = ", ".join(each.topics)
        rows.add_row(cell(each.name), each.state, str(len(each.members)), cell(topics))
    console().print(rows)


@group.command()
@group_argument
@settings_options
@broker_option
@as_json_option
def describe(loaded: Loaded, name: str, broker: str | None, as_json: bool) -> None:
    """Show a group: its state and members, and how far it is in each partition.

    The lag is what lies between the committed offset, or the log start if that is later, and the
    end of the log.
    """
    groups = Groups(bootstrap(loaded.settings, broker))
    found = groups.get(name)
    lags = groups.lags(found)
    if as_json:
        click.echo(json.dumps(_whole(found, lags)))
        return
    out = console()
    out.print(titled(name, f" {found.state}, {len(found.members)} members"))
    rows = grid("topic", "partition", "committed", "log end", "lag", "member")
    for each in lags:
        numbers = (each.committed, each.end, each.lag)
        shown = ["–" if number is None else str(number) for number in numbers]
        rows.add_row(cell(each.topic), str(each.partition), *shown, cell(each.member or "–"))
    out.print(rows)


@group.command()
@group_argument
@settings_options
@broker_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(loaded: Loaded, name: str, broker: str | None, yes: bool) -> None:
    """Forget a group and its offsets; one with members is refused."""
    groups = Groups(bootstrap(loaded.settings, broker))
    groups.get(name)
    require_consent(f"delete group {name} and its offsets?", given=yes)
    groups.delete(name)
    click.echo(f"deleted group {name}")


def _brief(group: GroupState) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "members": len(group.members),
        "topics": group.topics,
    }


def _whole(group: GroupState, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "members": [each._asdict() for each in group.members],
        "partitions": [each._asdict() for each in lags],
    }
