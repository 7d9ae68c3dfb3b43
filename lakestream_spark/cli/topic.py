"""`lakestream topic`: create, list, describe, alter and delete topics, with or without a broker."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from lakestream_spark.cli.asking import ask
from lakestream_spark.cli.consent import require_consent
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.output import cell, console, grid, titled
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.topic_config import SETTINGS, TopicConfig
from lakestream_spark.metadata.topic_config.checked import find_setting
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings import Settings
from lakestream_spark.settings.storage import catalog_spec
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.wal.ports import PartitionEnds

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
config_option = click.option(
    "--config",
    "config",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topic, repeatable; `lakestream topic settings` lists them.",
)


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command()
@click.argument("name")
@settings_options
@click.option("--partitions", type=click.IntRange(1), help="How many; the settings say otherwise.")
@config_option
@as_json_option
def create(
    loaded: Loaded,
    name: str,
    partitions: int | None,
    config: Sequence[str],
    as_json: bool,
) -> None:
    """Make a topic."""
    settings = loaded.settings
    wanted = _assigned(config)
    count = partitions or settings.broker.num_partitions

    async def made(metadata: Metadata) -> "About":
        topic = await metadata.topics.create(name, partitions=count, config=wanted)
        return await _about(metadata, settings, topic)

    about = ask(settings, made, makes=True)
    text = f"made topic {name} with {count} partitions; its table will be {about.table}"
    click.echo(json.dumps(about.as_json()) if as_json else text)


@topic.command("list")
@settings_options
@as_json_option
def list_(loaded: Loaded, as_json: bool) -> None:
    """List all topics; the offsets are sums over their partitions."""

    async def all_of_them(metadata: Metadata) -> list[About]:
        return [
            await _about(metadata, loaded.settings, topic) for topic in await metadata.topics.list()
        ]

    found = ask(loaded.settings, all_of_them)
    if as_json:
        click.echo(json.dumps([about.as_json() for about in found]))
        return
    rows = grid("topic", "partitions", "log start", "table end", "high watermark", "table")
    for about in found:
        ends = about.ends.values()
        start, end = sum(each.log_start for each in ends), sum(each.high_watermark for each in ends)
        numbers = (len(ends), start, sum(each.table_end for each in ends), end)
        rows.add_row(cell(about.topic.name), *map(str, numbers), cell(about.table))
    console().print(rows)


@topic.command()
@click.argument("name")
@settings_options
@as_json_option
def describe(loaded: Loaded, name: str, as_json: bool) -> None:
    """Show a topic: its settings, its table and where its partitions begin and end."""

    async def described(metadata: Metadata) -> About:
        return await _about(metadata, loaded.settings, await metadata.topics.get(name))

    about = ask(loaded.settings, described)
    if as_json:
        click.echo(json.dumps(about.as_json()))
        return
    out = console()
    out.print(titled(name, f" (id {about.topic.id})"))
    out.print(cell(f"table {about.table} at {about.location}"))
    config = ", ".join(f"{key}={value}" for key, value in sorted(about.topic.config.items()))
    out.print(cell(f"settings {config or 'all default'}"))
    rows = grid("partition", "log start", "table end", "high watermark", "not in the table")
    for partition, ends in sorted(about.ends.items()):
        behind = ends.high_watermark - ends.table_end
        places = (partition, ends.log_start, ends.table_end, ends.high_watermark, behind)
        rows.add_row(*map(str, places))
    out.print(rows)


@topic.command()
@click.argument("name")
@settings_options
@config_option
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to default.")
@click.option("--partitions", type=click.IntRange(1), help="Grow to so many partitions.")
def alter(
    loaded: Loaded,
    name: str,
    config: Sequence[str],
    deleted: Sequence[str],
    partitions: int | None,
) -> None:
    """Change a topic's settings, or give it more partitions."""
    wanted = _assigned(config)
    both = sorted(wanted.keys() & set(deleted))
    if both:
        raise click.UsageError(f"{both[0]} is given a value and deleted: which of the two?")
    if not wanted and not deleted and partitions is None:
        raise click.UsageError("give --config, --delete-config or --partitions")

    def changed(now: Mapping[str, str]) -> Mapping[str, str | None]:
        for key in deleted:
            find_setting(key)
        kept = {key: value for key, value in now.items() if key not in deleted}
        return {**kept, **wanted}

    async def altered(metadata: Metadata) -> None:
        topic = await metadata.topics.get(name)
        if wanted or deleted:
            # Tried before anything is changed: what is refused leaves the topic as it was.
            await metadata.topics.change_config(topic.id, changed, validate_only=True)
        if partitions is not None:
            await metadata.topics.add_partitions(topic.id, partitions)
        if wanted or deleted:
            await metadata.topics.change_config(topic.id, changed)

    ask(loaded.settings, altered)
    click.echo(f"changed topic {name}")


@topic.command()
@click.argument("name")
@settings_options
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(loaded: Loaded, name: str, yes: bool) -> None:
    """Delete a topic; its setting lakestream.table.on.delete says what becomes of its table."""
    found = ask(loaded.settings, lambda metadata: metadata.topics.get(name))
    drops = TopicConfig.of(found.config).drop_table_on_delete
    fate = "its table is dropped" if drops else "its table is kept"
    require_consent(f"delete topic {name} and all its records ({fate})?", given=yes)
    ask(loaded.settings, lambda metadata: metadata.topics.delete(found.id))
    click.echo(f"deleted topic {name}; {fate}")


@topic.command("settings")
@as_json_option
def settings_(as_json: bool) -> None:
    """List the settings that a topic can have."""
    if as_json:
        known = [{"name": s.name, "default": s.default, "doc": s.doc} for s in SETTINGS.values()]
        click.echo(json.dumps(known))
        return
    rows = grid("setting", "default", "")
    for setting in SETTINGS.values():
        rows.add_row(setting.name, setting.default or "–", setting.doc)
    console().print(rows, soft_wrap=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What there is to say about a topic."""

    topic: Topic
    table: str
    location: str
    ends: Mapping[int, PartitionEnds]

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic.name,
            "id": str(self.topic.id),
            "table": self.table,
            "location": self.location,
            "config": dict(self.topic.config),
            "partitions": [
                {"partition": partition, **ends._asdict()}
                for partition, ends in sorted(self.ends.items())
            ],
        }


async def _about(metadata: Metadata, settings: Settings, topic: Topic) -> About:
    layout = TableLayout(
        warehouse=catalog_spec(settings).warehouse,
        topic_id=topic.id,
        topic_name=topic.name,
        config=topic.config,
    )
    return About(
        topic=topic,
        table=".".join(layout.identifier),
        location=layout.location,
        ends=await metadata.tables.ends(topic.id),
    )


def _assigned(assignments: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--config")
        if key in given:
            raise click.BadParameter(f"{key} is given twice", param_hint="--config")
        given[key] = value
    return given
