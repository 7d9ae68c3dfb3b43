"""Lines of the standard input as records: plain ones, as kcat takes them, and JSON.

What always holds: what `lakestream consume --json` prints is the same record again.
"""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from lakestream_spark.cli.escapes import typed_bytes
from lakestream_spark.core.errors import Rejected

INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1
_FIELDS: Final = frozenset({"key", "value", "headers", "partition", "timestamp"})
_TOLD: Final = frozenset({"topic", "offset", "timestamp_type"})
"""What a consumer tells besides: where the record was, which is no part of what is sent."""
_NO_TIME: Final = -1

Headers = list[tuple[str, str | bytes | None]]


class Line(NamedTuple):
    """A record as a line says it; the topic says what is left out."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = -1
    timestamp: int = 0


def from_text(
    lines: Iterator[bytes], key: str | None, delimiter: bytes | None, headers: Headers
) -> Iterator[Line]:
    """A line is a value; with a delimiter in it, what comes before that is its own key."""
    common = None if key is None else typed_bytes(key)
    for line in lines:
        before, found, after = line.partition(delimiter) if delimiter else (b"", b"", b"")
        yield Line(before, after, headers) if found else Line(common, line, headers)


def from_json(lines: Iterator[bytes]) -> Iterator[Line]:
    """A line is an object; raises `Rejected` at the first that is none."""
    for number, line in enumerate(lines, 1):
        try:
            yield _line(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise Rejected(f"line {number} is not a record: {error}") from error


def _line(given: Any) -> Line:
    if not isinstance(given, dict):
        raise ValueError('it must be an object, such as {"value": "a"}')
    unknown = sorted(given.keys() - _FIELDS - _TOLD)
    if unknown:
        raise ValueError(
            f"there is no field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}"
        )
    if given.get("timestamp") == _NO_TIME:
        given = {**given, "timestamp": None}
    return Line(
        _bytes(given.get("key")),
        _bytes(given.get("value")),
        _headers(given.get("headers")),
        _whole(given, "partition", -1, INT32),
        _whole(given, "timestamp", 0, _INT64),
    )


def _headers(given: Any) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given or []
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("headers are an object, or a list of pairs of name and value")
    return [(str(name).encode().decode(), _bytes(value)) for name, value in pairs]


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
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _decoded(value["base64"])
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _decoded(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise ValueError(f"{str(text)[:40]!r} is no base64") from None


def header(text: str) -> tuple[str, str | bytes | None]:
    name, equals, value = text.partition("=")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(
            f"the name of a header is UTF-8, and {name!r} is not", param_hint="--header"
        ) from None
    return name, typed_bytes(value) if equals else None
