"""`lakestream consume TOPIC`: records on the standard output, from the table and from the tail."""

import json
import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import click
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from lakestream_spark.cli.arrivals import Arrivals
from lakestream_spark.cli.asking import table_of, time_ms
from lakestream_spark.cli.broker_address import bootstrap, broker_option
from lakestream_spark.cli.escapes import unescaped
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.plain_values import plain
from lakestream_spark.cli.record_format import Show, headers_of, parted, record_format
from lakestream_spark.core.errors import NotFound, Unavailable
from lakestream_spark.settings import Settings

_ASK_S: Final = 30.0
_BEGINNING: Final = -2
_END: Final = -1
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1
_FORMS: Final = (
    "beginning, end, N, -N (the last N of each partition), @TIME (ms or ISO 8601, UTC unless it "
    "names a zone), or snapshot:ID_OR_TAG (what came after that snapshot of the table)"
)


@click.command()
@click.argument("topic")
@settings_options
@broker_option
@click.option(
    "-o",
    "--offset",
    "start",
    default="beginning",
    show_default=True,
    help=f"Where to begin: {_FORMS}.",
)
@click.option("-p", "--partition", type=click.IntRange(0, _INT32), help="Only this one.")
@click.option("-c", "--count", type=click.IntRange(1), help="End after so many records.")
@click.option("-e", "--exit", "exits", is_flag=True, help="End when nothing is left.")
@click.option(
    "--until",
    metavar="TIME",
    help="End before the first record at or after this time: ms, or ISO 8601 (UTC).",
)
@click.option("-f", "--format", "pattern", metavar="PATTERN", help=r"Default: %s\n")
@click.option(
    "-K", "--key-delimiter", metavar="TEXT", help=r"Print keys too, and this after each, as \t."
)
@click.option("-D", "--delimiter", metavar="TEXT", help=r"What follows each record. Default: \n")
@click.option("-Z", "--null", "shows_null", is_flag=True, help="Print NULL for what is null.")
@click.option("-J", "--json", "as_json", is_flag=True, help="An object for each record.")
def consume(
    loaded: Loaded,
    topic: str,
    broker: str | None,
    start: str,
    partition: int | None,
    count: int | None,
    exits: bool,
    until: str | None,
    as_json: bool,
    **printed: Any,
) -> None:
    r"""Print records: those in the table and those that come, in one stream.

    PATTERN: %t topic, %p partition, %o offset, %T time in ms, %k key, %s value, %h headers,
    %K and %S their lengths, \n, \t and \xNN as usual, %% a percent sign.
    With -J nothing else says how a record is printed.
    """
    show = _as_json if as_json else _shown(**printed)
    until_ms = None if until is None else time_ms(until, "--until")
    address = bootstrap(loaded.settings, broker)
    with Arrivals.of(address) as arrivals:
        try:
            places = _places(arrivals.consumer, loaded.settings, topic, start, partition)
            ends = {} if until_ms is None else _ends(arrivals.consumer, places, until_ms)
        except KafkaException as error:
            raise Unavailable(f"the broker does not tell: {error.args[0].str()}") from error
        records = arrivals.records(places, exits=exits, until=ends)
        for message in islice(records, count):
            sys.stdout.buffer.write(show(message))
            sys.stdout.buffer.flush()


def _shown(
    pattern: str | None, key_delimiter: str | None, delimiter: str | None, shows_null: bool
) -> Show:
    null = b"NULL" if shows_null else b""
    if pattern is None:
        between = None if key_delimiter is None else unescaped(key_delimiter)
        return parted(between, b"\n" if delimiter is None else unescaped(delimiter), null)
    if key_delimiter is not None or delimiter is not None:
        raise click.UsageError(
            "with --format the pattern says what parts records: leave out -K, -D"
        )
    return record_format(pattern, null)


def _places(
    consumer: Consumer, settings: Settings, topic: str, start: str, only: int | None
) -> list[TopicPartition]:
    """Where to begin in each partition."""
    known = consumer.list_topics(topic, _ASK_S).topics.get(topic) if topic else None
    if known is None or known.error is not None:
        raise NotFound("no such topic", topic=topic)
    if only is not None and only not in known.partitions:
        raise NotFound("the topic has no such partition", topic=topic, partition=only)
    wanted = sorted(known.partitions) if only is None else [only]
    begin = _beginnings(consumer, settings, topic, start, wanted)
    return [TopicPartition(topic, number, begin[number]) for number in wanted]


def _beginnings(
    consumer: Consumer, settings: Settings, topic: str, start: str, wanted: list[int]
) -> Mapping[int, int]:
    if start in ("beginning", "earliest"):
        return dict.fromkeys(wanted, _BEGINNING)
    if start in ("end", "latest"):
        return dict.fromkeys(wanted, _END)
    if start.startswith("snapshot:"):
        ends = _snapshot_ends(settings, topic, start.removeprefix("snapshot:"))
        return {
            each: _within(consumer, TopicPartition(topic, each, ends.get(each, 0)))
            for each in wanted
        }
    if start.startswith("@"):
        return offsets_at(consumer, topic, wanted, time_ms(start[1:], "--offset"))
    number = _number(start)
    if number >= 0:
        return {each: _within(consumer, TopicPartition(topic, each, number)) for each in wanted}
    return {each: _last(consumer, TopicPartition(topic, each), -number) for each in wanted}


def offsets_at(
    consumer: Consumer, topic: str, wanted: list[int], timestamp_ms: int
) -> Mapping[int, int]:
    """The first offsets at or after a time; raises rather than to begin somewhere else."""
    asked = [TopicPartition(topic, number, timestamp_ms) for number in wanted]
    found = consumer.offsets_for_times(asked, _ASK_S)
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return {each.partition: each.offset for each in found}


def _ends(consumer: Consumer, places: list[TopicPartition], until_ms: int) -> Mapping[int, int]:
    """Where each partition reaches a time; for one that does not yet, where it ends now."""
    topic, numbers = places[0].topic, [each.partition for each in places]
    found = offsets_at(consumer, topic, numbers, until_ms)
    return {
        number: offset if offset >= 0 else _last(consumer, TopicPartition(topic, number), 0)
        for number, offset in found.items()
    }


def _number(start: str) -> int:
    try:
        number = int(start)
    except ValueError:
        raise click.BadParameter(
            f"{start[:40]!r} is no beginning: give {_FORMS}", param_hint="--offset"
        ) from None
    if abs(number) > _INT64:
        raise click.BadParameter(
            f"{start} is no offset: the largest is {_INT64}", param_hint="--offset"
        )
    return number


def _within(consumer: Consumer, place: TopicPartition) -> int:
    """The offset, or the nearest one that the log has: a consumer would go to the beginning."""
    low, high = consumer.get_watermark_offsets(place, _ASK_S)
    return min(max(low, place.offset), high)


def _last(consumer: Consumer, place: TopicPartition, count: int) -> int:
    low, high = consumer.get_watermark_offsets(place, _ASK_S)
    return max(low, high - count)


def _snapshot_ends(settings: Settings, name: str, snapshot: str) -> Mapping[int, int]:
    # Here and not above: most calls need no table.
    from lakestream_spark.table.snapshots import ends_of_snapshot, snapshot_named

    _, table = table_of(settings, name)
    return ends_of_snapshot(table, snapshot_named(table, snapshot)).ends


def _as_json(message: Message) -> bytes:
    kind, time = message.timestamp()
    about: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": time,
        "timestamp_type": "append" if kind == 2 else "create",
        "key": plain(message.key()),
        "value": plain(message.value()),
        "headers": [[name, plain(value)] for name, value in headers_of(message)],
    }
    return json.dumps(about, ensure_ascii=False).encode() + b"\n"
