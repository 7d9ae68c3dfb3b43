"""Kinds of values: how a setting's text is read and what to say when it cannot be.

Numbers are read as Kafka reads them: ASCII digits with a sign, blanks around them ignored.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...]

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_REAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Kind(IntEnum):
    """The type of a value, by the number that DescribeConfigs gives it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """What a setting takes: `read` gives the value of a text or raises `ValueError`."""

    kind: Kind
    allowed: str
    read: Callable[[str], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `acts` is false for those accepted only because Kafka's tools send them;
    `server_name` is the broker's setting that gives the default in Kafka."""

    name: str
    takes: Takes
    default: str
    doc: str
    server_name: str | None = None
    acts: bool = True

    def __post_init__(self) -> None:
        self.takes.read(self.default)


def _whole(kind: Kind, low: int, high: int, largest: int) -> Takes:
    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    top = f"to {high}" if high < largest else "on"
    return Takes(kind=kind, allowed=f"a whole number from {low} {top}", read=read)


def whole(low: int, high: int = INT_MAX) -> Takes:
    """A number of 32 bits."""
    return _whole(Kind.INT, low, high, INT_MAX)


def long(low: int, high: int = LONG_MAX) -> Takes:
    """A number of 64 bits."""
    return _whole(Kind.LONG, low, high, LONG_MAX)


def real(low: float, high: float) -> Takes:
    def read(text: str) -> float:
        if not _REAL.fullmatch(text.strip()) or not low <= float(text) <= high:
            raise ValueError(text)
        return float(text)

    return Takes(kind=Kind.DOUBLE, allowed=f"a number from {low:g} to {high:g}", read=read)


def boolean(*, only: bool | None = None) -> Takes:
    def read(text: str) -> bool:
        value = {"true": True, "false": False}.get(text.strip().lower())
        if value is None or only not in (None, value):
            raise ValueError(text)
        return value

    allowed = "true or false" if only is None else f"only {str(only).lower()}"
    return Takes(kind=Kind.BOOLEAN, allowed=allowed, read=read)


def one_of(*choices: str) -> Takes:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return Takes(kind=Kind.STRING, allowed=f"one of {', '.join(choices)}", read=read)


def matching(pattern: str, allowed: str, *, unless: str | None = None) -> Takes:
    """A string of that form; the empty one stands for not set."""
    form = re.compile(pattern)
    reserved = re.compile(unless) if unless else None

    def read(text: str) -> str:
        if text and (not form.fullmatch(text) or (reserved and reserved.search(text))):
            raise ValueError(text)
        return text

    return Takes(kind=Kind.STRING, allowed=allowed, read=read)


def list_of(pattern: str, allowed: str, *, needs: Sequence[str] = ()) -> Takes:
    """A comma-separated list whose elements have that form and contain those in `needs`."""
    form = re.compile(pattern)

    def read(text: str) -> tuple[str, ...]:
        parts = elements(text)
        if not all(form.fullmatch(part) for part in parts) or not set(needs) <= set(parts):
            raise ValueError(text)
        return tuple(parts)

    return Takes(kind=Kind.LIST, allowed=allowed, read=read)


def elements(text: str) -> list[str]:
    """The elements of a list's text; that of an empty one is empty."""
    return [part.strip() for part in text.split(",")] if text.strip() else []
