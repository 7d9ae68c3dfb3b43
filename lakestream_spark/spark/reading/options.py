"""The options of the data source `lakestream`, checked. Names are those of Spark's `kafka` source.

    subscribe, subscribePattern    topics, by name with commas between or by a pattern
    startingOffsets                earliest, latest, or {"topic": {"0": 23, "1": -2}}
    startingTimestamp              milliseconds: the first record at or after that time
    startingSnapshot               id or tag: where that snapshot of the table ends
    endingOffsets                  latest, or as JSON; of a batch only
    maxOffsetsPerTrigger           of a stream only
    failOnDataLoss                 true (the default) or false
    columns                        table (the default) or kafka
    includeHeaders                 true (the default) or false; with columns=kafka
    data, conf                     where everything lies, as the flags of the command line

What always holds: an option that does not exist or has no legal value is refused in one sentence.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from lakestream_spark.core.errors import Misconfigured

NAMES: Final = (
    *("subscribe", "subscribePattern"),
    *("startingOffsets", "startingTimestamp", "startingSnapshot", "endingOffsets"),
    *("maxOffsetsPerTrigger", "failOnDataLoss", "columns", "includeHeaders", "data", "conf"),
)
_STARTS: Final = ("startingOffsets", "startingTimestamp", "startingSnapshot")
_LATEST: Final = -1
_EARLIEST: Final = -2


class Edge(StrEnum):
    """Where a log begins and ends."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Exact(NamedTuple):
    """Offsets of each partition of each topic; some may be an edge."""

    offsets: Mapping[str, Mapping[int, int | Edge]]


class AtTime(NamedTuple):
    """The first record of each partition at or after a time; the end where there is none."""

    timestamp_ms: int


class AtSnapshot(NamedTuple):
    """The ends of a snapshot of the table, named by its id or a tag."""

    name: str


Place: TypeAlias = Edge | Exact | AtTime | AtSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read: topics by name, or by a pattern; `ending` is None for a stream."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    starting: Place
    ending: Place | None = None
    max_offsets: int | None = None
    fail_on_data_loss: bool = True
    kafka_columns: bool = False
    headers: bool = True
    data: str | None = None
    conf: str | None = None


def parse(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of a batch or a stream; raises `Misconfigured`."""
    given = _named(options)
    topics, pattern = _topics(given)
    kafka = _choice(given, "columns", ("table", "kafka"), "table") == "kafka"
    if not kafka and (pattern is not None or len(topics) > 1):
        raise Misconfigured(
            "rows of several topics need a column that tells them apart: set columns=kafka"
        )
    _check_kind(given, streaming)
    return ReadOptions(
        topics=topics,
        pattern=pattern,
        starting=_starting(given, streaming),
        ending=None if streaming else _ending(given),
        max_offsets=_positive(given, "maxOffsetsPerTrigger"),
        fail_on_data_loss=_truth(given, "failOnDataLoss"),
        kafka_columns=kafka,
        headers=_truth(given, "includeHeaders"),
        data=given.get("data"),
        conf=given.get("conf"),
    )


def _named(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their usual spelling: Spark does not tell capitals from small letters."""
    spelling = {name.lower(): name for name in NAMES}
    given: dict[str, str] = {}
    for key, value in options.items():
        name = spelling.get(key.lower())
        if name is None:
            near = get_close_matches(key.lower(), spelling, n=1)
            hint = f"did you mean {spelling[near[0]]}?" if near else f"known: {', '.join(NAMES)}"
            raise Misconfigured(f"lakestream has no option {key!r}; {hint}")
        given[name] = value
    return given


def _check_kind(given: Mapping[str, str], streaming: bool) -> None:
    if streaming and "endingOffsets" in given:
        raise Misconfigured("endingOffsets is for batches: a stream has no end")
    if not streaming and "maxOffsetsPerTrigger" in given:
        raise Misconfigured("maxOffsetsPerTrigger is for streams: a batch reads all at once")


def _topics(given: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    if ("subscribe" in given) == ("subscribePattern" in given):
        raise Misconfigured("name what to read by either subscribe or subscribePattern")
    pattern = given.get("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise Misconfigured(f"subscribePattern is no pattern: {error}") from None
        return (), pattern
    names = tuple(dict.fromkeys(name.strip() for name in given["subscribe"].split(",")))
    if not all(names):
        raise Misconfigured("subscribe holds topics with commas between, and no empty name")
    return names, None


def _starting(given: Mapping[str, str], streaming: bool) -> Place:
    named = [name for name in _STARTS if name in given]
    if len(named) > 1:
        raise Misconfigured(f"name one start, not both {' and '.join(named)}")
    if "startingTimestamp" in given:
        return AtTime(_number(given, "startingTimestamp"))
    if "startingSnapshot" in given:
        return AtSnapshot(given["startingSnapshot"].strip())
    found = _offsets(given, "startingOffsets", Edge.LATEST if streaming else Edge.EARLIEST)
    if not streaming and _has(found, Edge.LATEST):
        raise Misconfigured("startingOffsets of a batch cannot be latest")
    return found


def _ending(given: Mapping[str, str]) -> Place:
    found = _offsets(given, "endingOffsets", Edge.LATEST)
    if _has(found, Edge.EARLIEST):
        raise Misconfigured("endingOffsets cannot be earliest")
    return found


def _has(place: Place, edge: Edge) -> bool:
    if isinstance(place, Exact):
        return any(edge in own.values() for own in place.offsets.values())
    return place is edge


def _offsets(given: Mapping[str, str], name: str, default: Edge) -> Edge | Exact:
    text = given.get(name, default).strip()
    if text.lower() in tuple(Edge):
        return Edge(text.lower())
    try:
        found = json.loads(text)
        return Exact({topic: _partitions(own) for topic, own in found.items()})
    except (ValueError, AttributeError, TypeError):
        raise Misconfigured(
            f"{name} is earliest, latest or offsets like "
            f'{{"topic": {{"0": 23, "1": -2}}}}, not {text!r}'
        ) from None


def _partitions(own: Mapping[str, Any]) -> dict[int, int | Edge]:
    edges = {_LATEST: Edge.LATEST, _EARLIEST: Edge.EARLIEST}
    found: dict[int, int | Edge] = {}
    for partition, offset in own.items():
        if not isinstance(offset, int) or offset < _EARLIEST:
            raise ValueError(offset)
        found[int(partition)] = edges.get(offset, offset)
    return found


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    found = given.get(name, default).strip().lower()
    if found not in choices:
        raise Misconfigured(f"{name} is {' or '.join(choices)}, not {given[name]!r}")
    return found


def _truth(given: Mapping[str, str], name: str) -> bool:
    return _choice(given, name, ("true", "false"), "true") == "true"


def _number(given: Mapping[str, str], name: str) -> int:
    text = given[name].strip()
    if not text.isdecimal():
        raise Misconfigured(f"{name} is a number, not {text!r}")
    return int(text)


def _positive(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    found = _number(given, name)
    if found < 1:
        raise Misconfigured(f"{name} is at least 1, not {found}")
    return found
