"""The tree as text: the documented TOML file, and values as they may be shown to a person."""

import re
import textwrap
from collections.abc import Iterator
from json import dumps

from pydantic import BaseModel, SecretStr

from lakestream_spark.settings.derived import RULES
from lakestream_spark.settings.sources import variable
from lakestream_spark.settings.tree import KEYS, Key, Settings

HEAD = """\
Settings of lakestream-spark: every key with its default. Made by `make conf`: do not edit this
one, copy it and remove the `#` before what you change.

A flag (`--data`, `--port`, ..., `--set KEY=VALUE`) beats the environment, which beats this file,
which beats the default. A secret can be given by its variable with `_FILE` added, which names
a file that holds it. An empty string means: not set.
"""
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):.*@")
_PASSWORD_OPTION = re.compile(r"(?<=password=)[^&]*")


def toml_document() -> str:
    """The whole settings file; as it stands it changes nothing."""
    return "\n".join([*_comment(HEAD), *_tables(Settings)]) + "\n"


def _tables(model: type[BaseModel], path: str = "") -> Iterator[str]:
    nested: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        key = f"{path}.{name}" if path else name
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            nested.append((key, kind))
        else:
            yield from _key(name, KEYS[key])
    for key, kind in nested:
        yield from ("", "", *_comment(kind.__doc__ or ""), f"[{key}]")
        yield from _tables(kind, key)


def _key(name: str, key: Key) -> Iterator[str]:
    yield ""
    yield from _comment(key.field.description or "")
    if key.path in RULES:
        yield from _comment(f"Default: {RULES[key.path]}")
    yield f"# Variable: {variable(key.path)}"
    yield f"# {name} = {_toml(key.field.default)}"


def _toml(default: object) -> str:
    if isinstance(default, dict):
        return "{}"
    # Not given, or given as nothing: an empty string means "not set".
    return dumps(default) if isinstance(default, str | int | float) else '""'


def _comment(text: str) -> list[str]:
    paragraphs = [textwrap.fill(" ".join(part.split()), 96) for part in text.strip().split("\n\n")]
    return [f"# {line}".rstrip() for line in "\n\n".join(paragraphs).splitlines()]


def shown(value: object) -> str:
    """A value for people: no secret, no password inside a URL, no values of free properties."""
    match value:
        case None:
            return "(not set)"
        case SecretStr():
            return "(hidden)"
        case dict():
            return f"(hidden: {', '.join(sorted(value))})" if value else "(none)"
        case str():
            return _PASSWORD_OPTION.sub("(hidden)", _PASSWORD.sub(r"\1:(hidden)@", value))
        case _:
            return str(value)
