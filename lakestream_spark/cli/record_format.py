"""The patterns of `lakestream consume -f`, after the habits of kcat."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from confluent_kafka import Message

from lakestream_spark.cli.escapes import ESCAPE, escaped

_TOKEN: Final = re.compile(
    rf"%(?P<field>.)|(?P<escape>{ESCAPE})|(?P<text>[^%\\]+|[%\\]$)", re.DOTALL
)

Show = Callable[[Message], bytes]


def record_format(pattern: str) -> Show:
    """What prints a record by the pattern; raises `BadParameter` for a field that is not known."""
    parts = [_part(found) for found in _TOKEN.finditer(pattern)]
    return lambda message: b"".join(part(message) for part in parts)


def _part(found: re.Match[str]) -> Show:
    field, escape, text = found["field"], found["escape"], found["text"]
    if field is not None:
        if field not in _FIELDS:
            known = ", ".join(f"%{name}" for name in _FIELDS)
            raise click.BadParameter(
                f"there is no field %{field}; there are {known}", param_hint="--format"
            )
        return _FIELDS[field]
    return _constant(escaped(escape) if escape is not None else text.encode())


def _constant(text: bytes) -> Show:
    return lambda _: text


def _bytes(value: str | bytes | None) -> bytes:
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else value


def _length(value: str | bytes | None) -> bytes:
    return b"-1" if value is None else str(len(value)).encode()


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """In the order in which they were sent."""
    given: Any = message.headers() or []
    return list(given)


def _headers(message: Message) -> bytes:
    return b",".join(
        name.encode() if value is None else name.encode() + b"=" + value
        for name, value in headers_of(message)
    )


_FIELDS: Final[Mapping[str, Show]] = {
    "t": lambda message: _bytes(message.topic()),
    "p": lambda message: str(message.partition()).encode(),
    "o": lambda message: str(message.offset()).encode(),
    "T": lambda message: str(message.timestamp()[1]).encode(),
    "k": lambda message: _bytes(message.key()),
    "s": lambda message: _bytes(message.value()),
    "h": _headers,
    "K": lambda message: _length(message.key()),
    "S": lambda message: _length(message.value()),
    "%": _constant(b"%"),
}
