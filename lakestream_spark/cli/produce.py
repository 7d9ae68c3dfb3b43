"""`lakestream produce TOPIC`: a record for each line of the standard input."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import click
from confluent_kafka import KafkaException, Message, Producer

from lakestream_spark.cli.broker_address import bootstrap, broker_option
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.errors import Rejected, Unavailable

_FLUSH_S: Final = 60.0
_LARGEST_BYTES: Final = 100_000_000
"""Below what a broker reads of a request. How large a record may be, the topic says."""
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1
_FIELDS: Final = frozenset({"key", "value", "headers", "partition", "timestamp"})

Headers = list[tuple[str, str | bytes | None]]
Delivered = Callable[[Any, Message], None]


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
@click.option(
    "-p", "--partition", type=click.IntRange(0, _INT32), help="By default the key decides."
)
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
                "message.max.bytes": _LARGEST_BYTES,
                "log_level": 0,
            }
        )
    except KafkaException as error:
        raise Rejected(f"the client takes no such option: {error.args[0].str()}") from error
    for record in records:
        where = record.partition if record.partition >= 0 or partition is None else partition
        try:
            _enqueue(producer, topic, record, where, delivered)
        except KafkaException as error:
            failures.append(error.args[0].str())
        if failures:
            break
    left = producer.flush(_FLUSH_S)
    if failures:
        refused = f"a record was refused: {failures[0]}; {done} were acknowledged before"
        raise Rejected(refused, topic=topic)
    if left:
        raise Unavailable("not all records were acknowledged in time", open=left, done=done)
    return done


def _enqueue(
    producer: Producer, topic: str, record: _Line, partition: int, delivered: Delivered
) -> None:
    """Hand a record over, as soon as there is room for it."""
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=delivered,
                timestamp=record.timestamp,
                headers=record.headers,
            )
            break
        except BufferError:
            producer.poll(1)
    producer.poll(0)


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
        except (ValueError, RecursionError) as error:
            raise Rejected(f"line {number} is not a record: {error}") from error


def _line(given: Any) -> _Line:
    if not isinstance(given, dict):
        raise ValueError('it must be an object, such as {"value": "a"}')
    unknown = sorted(given.keys() - _FIELDS)
    if unknown:
        raise ValueError(
            f"there is no field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}"
        )
    return _Line(
        _bytes(given.get("key")),
        _bytes(given.get("value")),
        _headers(given.get("headers")),
        _whole(given, "partition", -1, _INT32),
        _whole(given, "timestamp", 0, _INT64),
    )


def _headers(given: Any) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given or []
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("headers are an object, or a list of pairs of name and value")
    return [(str(name), _bytes(value)) for name, value in pairs]


def _whole(given: dict[str, Any], name: str, default: int, most: int) -> int:
    """A whole number of a field, or what it is when nobody says."""
    value = given.get(name)
    if value is None:
        return default
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is a whole number from 0 to {most}, not {str(value)[:40]}")
    return value


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _header(text: str) -> tuple[str, str | bytes | None]:
    name, equals, value = text.partition("=")
    return name, value.encode() if equals else None
