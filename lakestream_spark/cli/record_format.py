"""The patterns of `lakestream consume -f`, after the habits of kcat."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from confluent_kafka import Message

from lakestream_spark.cli.escapes import ESCAPE, escaped, typed_bytes

_TOKEN: Final = re.compile(
    rf"%(?P<field>.)|(?P<escape>{ESCAPE})|(?P<text>[^%\\]+|[%\\]$)", re.DOTALL
)

Show = Callable[[Message], bytes]


def record_format(pattern: str, null: bytes = b"") -> Show:
    """What prints a record by the pattern, and `null` for a key or a value that is none; raises
    `BadParameter` for a field that is not known."""
    fields = {**_FIELDS, **_contents(null)}
    parts = [_part(found, fields) for found in _TOKEN.finditer(pattern)]
    return lambda message: b"".join(part(message) for part in parts)


def parted(key_delimiter: bytes | None, delimiter: bytes, null: bytes) -> Show:
    """What prints a value and what follows it, after the key where something parts the two."""
    contents = _contents(null)
    key, value = contents["k"], contents["s"]
    if key_delimiter is None:
        return lambda message: value(message) + delimiter
    return lambda message: b"".join((key(message), key_delimiter, value(message), delimiter))


def _part(found: re.Match[str], fields: Mapping[str, Show]) -> Show:
    field, escape, text = found["field"], found["escape"], found["text"]
    if field is not None:
        if field not in fields:
            known = ", ".join(f"%{name}" for name in fields)
            raise click.BadParameter(
                f"there is no field %{field}; there are {known}", param_hint="--format"
            )
        return fields[field]
    return _constant(escaped(escape) if escape is not None else typed_bytes(text))


def _constant(text: bytes) -> Show:
    return lambda _: text


def _contents(null: bytes) -> Mapping[str, Show]:
    return {
        "k": lambda message: _bytes(message.key(), null),
        "s": lambda message: _bytes(message.value(), null),
    }


def _bytes(value: str | bytes | None, null: bytes = b"") -> bytes:
    if value is None:
        return null
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
    **_contents(b""),
    "h": _headers,
    "K": lambda message: _length(message.key()),
    "S": lambda message: _length(message.value()),
    "%": _constant(b"%"),
}
