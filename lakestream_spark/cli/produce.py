"""`lakestream produce TOPIC`: a record for each line of the standard input."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import click
from confluent_kafka import KafkaException, Message, Producer

from lakestream_spark.cli.broker_address import bootstrap, broker_option
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.errors import Rejected, Unavailable

_FLUSH_S: Final = 60.0
_FIELDS: Final = frozenset({"key", "value", "headers", "partition", "timestamp"})

Headers = list[tuple[str, str | bytes | None]]


class _Line(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = -1
    timestamp: int = 0


@click.command()
@click.argument("topic")
@settings_options
@broker_option
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Key and value of a line are parted.")
@click.option("-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option("-p", "--partition", type=click.IntRange(0), help="By default the key decides.")
@click.option("-z", "--compression", default="none", show_default=True, help="A codec of Kafka's.")
@click.option("--json", "as_json", is_flag=True, help="A line is an object: key, value, headers, …")
def produce(
    loaded: Loaded,
    topic: str,
    broker: str | None,
    key: str | None,
    key_delimiter: str | None,
    headers: Sequence[str],
    partition: int | None,
    compression: str,
    as_json: bool,
) -> None:
    """Send a record for each line of the standard input, and wait until all are acknowledged.

    With --json a line is {"value": …, "key": …, "headers": {…}, "partition": …, "timestamp": …},
    all of which may be left out; values that are not texts are sent as JSON.
    """
    if as_json and (key or key_delimiter or headers):
        raise click.UsageError("with --json the lines say keys and headers themselves")
    common = [_header(text) for text in headers]
    lines = (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    records = (
        _from_json(lines)
        if as_json
        else (_plain(line, key, key_delimiter, common) for line in lines)
    )
    address = bootstrap(loaded.settings, broker)
    count = _send(address, topic, records, partition, compression)
    click.echo(f"{count} records acknowledged", err=True)


def _send(
    address: str, topic: str, records: Iterator[_Line], partition: int | None, compression: str
) -> int:
    failures: list[str] = []
    done = 0

    def delivered(error: Any, message: Message) -> None:  # noqa: ARG001
        nonlocal done
        if error is None:
            done += 1
        else:
            failures.append(error.str())

    try:
        producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "compression.type": compression,
                "linger.ms": 20,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
    except KafkaException as error:
        raise Rejected(f"the client takes no such option: {error.args[0].str()}") from error
    for record in records:
        where = record.partition if record.partition >= 0 or partition is None else partition
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    where,
                    on_delivery=delivered,
                    timestamp=record.timestamp,
                    headers=record.headers,
                )
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)
        if failures:
            break
    left = producer.flush(_FLUSH_S)
    if failures:
        refused = f"a record was refused: {failures[0]}; {done} were acknowledged before"
        raise Rejected(refused, topic=topic)
    if left:
        raise Unavailable("not all records were acknowledged in time", open=left, done=done)
    return done


def _plain(line: bytes, key: str | None, delimiter: str | None, headers: Headers) -> _Line:
    own = None if key is None else key.encode()
    if delimiter:
        before, found, after = line.partition(delimiter.encode())
        if found:
            return _Line(before, after, headers)
    return _Line(own, line, headers)


def _from_json(lines: Iterator[bytes]) -> Iterator[_Line]:
    for number, line in enumerate(lines, 1):
        try:
            yield _line(json.loads(line))
        except (ValueError, TypeError, AttributeError) as error:
            raise Rejected(f"line {number} is not a record: {error}") from error


def _line(given: dict[str, Any]) -> _Line:
    unknown = sorted(given.keys() - _FIELDS)
    if unknown:
        raise ValueError(
            f"there is no field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}"
        )
    headers = given.get("headers") or {}
    pairs = headers.items() if isinstance(headers, dict) else headers
    return _Line(
        _bytes(given.get("key")),
        _bytes(given.get("value")),
        [(str(name), _bytes(value)) for name, value in pairs],
        int(given.get("partition", -1)),
        int(given.get("timestamp", 0)),
    )


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _header(text: str) -> tuple[str, str | bytes | None]:
    name, equals, value = text.partition("=")
    return name, value.encode() if equals else None
