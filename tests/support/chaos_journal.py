"""What a client of the chaos run did and saw, one JSON line per event.

A line is written by one system call, so that a client may be killed at any point: at most its last
line is torn. Times are of the monotonic clock, which all processes of a host share. A value names
its producer, its partition and its number there, so that it is unique and order can be checked.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Value(NamedTuple):
    """The parts of a record's value."""

    producer: str
    partition: str
    number: int

    def __str__(self) -> str:
        return f"{self.producer}/{self.partition}/{self.number:07d}"

    @classmethod
    def parse(cls, text: str) -> "Value":
        producer, partition, number = text.split("/")
        return cls(producer, partition, int(number))


class Journal:
    """One life of one client."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)

    def write(self, kind: str, *facts: object) -> None:
        line = json.dumps([kind, time.monotonic(), *facts], separators=(",", ":"))
        os.write(self._fd, line.encode() + b"\n")


class Event(NamedTuple):
    """One line."""

    kind: str
    at: float
    facts: list[Any]


def events(path: Path) -> Iterator[Event]:
    """All whole lines; the last one may be torn."""
    *lines, _torn = path.read_bytes().split(b"\n")
    for line in lines:
        kind, at, *facts = json.loads(line)
        yield Event(kind, at, facts)
