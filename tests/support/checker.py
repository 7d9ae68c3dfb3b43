"""A checker of a log's history, after Jepsen's for Kafka: what was sent, acknowledged and read.

Values are unique. A send without an acknowledgement is indeterminate and counts neither way: its
records may be there (once) or not. The final read holds every record of every partition.

Pure: it knows nothing of brokers or stores, so it cannot share their mistakes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, TypeAlias

Row: TypeAlias = tuple[int, str]
"""The offset and the value of one record."""


class Send(NamedTuple):
    """A batch that a producer sent at least once."""

    partition: str
    producer: int
    sequence: int
    values: tuple[str, ...]


class Ack(NamedTuple):
    """An answer that promised the batch's offsets."""

    partition: str
    producer: int
    sequence: int
    base_offset: int
    values: tuple[str, ...]

    def rows(self) -> Iterable[Row]:
        return enumerate(self.values, self.base_offset)


class Poll(NamedTuple):
    """What one reader got, in the order in which it got it."""

    partition: str
    rows: Sequence[Row]


class Kind(StrEnum):
    """What can be wrong."""

    LOST = "lost write"
    UNSEEN = "acknowledged but unseen at the end"
    DUPLICATE = "duplicate"
    INCONSISTENT = "inconsistent offset"
    PHANTOM = "phantom"
    NON_MONOTONIC_SEND = "non-monotonic send"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    SKIP = "poll skip"


class Anomaly(NamedTuple):
    """One thing that must not be."""

    kind: Kind
    partition: str
    facts: str


@dataclass(slots=True)
class History:
    """Everything that clients saw."""

    sends: list[Send] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)


def anomalies(history: History, final: Mapping[str, Sequence[Row]]) -> list[Anomaly]:
    """All that is wrong, given the final read of each partition from offset 0 on."""
    names = {send.partition for send in history.sends} | set(final)
    names |= {ack.partition for ack in history.acks} | {poll.partition for poll in history.polls}
    return [found for name in sorted(names) for found in _check(history, final, name)]


def _check(
    history: History, final: Mapping[str, Sequence[Row]], partition: str
) -> Iterable[Anomaly]:
    rows = final.get(partition, ())
    sends = [send for send in history.sends if send.partition == partition]
    acks = [ack for ack in history.acks if ack.partition == partition]
    polls = [poll.rows for poll in history.polls if poll.partition == partition]
    if rows and rows[0][0] != 0:
        yield Anomaly(Kind.SKIP, partition, f"the log begins at {rows[0][0]}")
    found = [
        *_order([rows, *polls]),
        *_phantoms(sends, [rows, *polls]),
        *_duplicates(rows),
        *_inconsistencies(rows, acks, polls),
        *_missing(rows, acks),
        *_send_order(rows, sends),
    ]
    for kind, facts in found:
        yield Anomaly(kind, partition, facts)


def _order(reads: Iterable[Sequence[Row]]) -> Iterable[tuple[Kind, str]]:
    """Every read goes up by one; compaction by key and erasure do not happen here."""
    for rows in reads:
        for (before, _), (after, value) in pairwise(rows):
            if after <= before:
                yield Kind.NON_MONOTONIC_POLL, f"{after} ({value}) came after {before}"
            elif after != before + 1:
                yield Kind.SKIP, f"{after} ({value}) came after {before}"


def _phantoms(sends: Iterable[Send], reads: Iterable[Sequence[Row]]) -> Iterable[tuple[Kind, str]]:
    sent = {value for send in sends for value in send.values}
    for offset, value in sorted({row for rows in reads for row in rows if row[1] not in sent}):
        yield Kind.PHANTOM, f"{value} at {offset} was never sent"


def _duplicates(rows: Iterable[Row]) -> Iterable[tuple[Kind, str]]:
    offsets: dict[str, set[int]] = defaultdict(set)
    for offset, value in rows:
        offsets[value].add(offset)
    for value, own in offsets.items():
        if len(own) > 1:
            yield Kind.DUPLICATE, f"{value} is at {sorted(own)}"


def _inconsistencies(
    rows: Iterable[Row], acks: Iterable[Ack], polls: Iterable[Sequence[Row]]
) -> Iterable[tuple[Kind, str]]:
    """One offset has one value, and one value one acknowledged offset, whoever says so."""
    values: dict[int, set[str]] = defaultdict(set)
    promised: dict[str, set[int]] = defaultdict(set)
    for ack in acks:
        for offset, value in ack.rows():
            values[offset].add(value)
            promised[value].add(offset)
    for offset, value in [*rows, *(row for poll in polls for row in poll)]:
        values[offset].add(value)
        if value in promised:
            promised[value].add(offset)
    for offset, own in values.items():
        if len(own) > 1:
            yield Kind.INCONSISTENT, f"offset {offset} has {sorted(own)}"
    for value, places in promised.items():
        if len(places) > 1:
            yield Kind.INCONSISTENT, f"acknowledged {value} is at {sorted(places)}"


def _missing(rows: Sequence[Row], acks: Iterable[Ack]) -> Iterable[tuple[Kind, str]]:
    read = {value for _, value in rows}
    highest = max((offset for offset, _ in rows), default=-1)
    for ack in acks:
        for offset, value in ack.rows():
            if value not in read:
                kind = Kind.LOST if offset < highest else Kind.UNSEEN
                yield kind, f"{value} was acknowledged at {offset}, read up to {highest}"


def _send_order(rows: Iterable[Row], sends: Iterable[Send]) -> Iterable[tuple[Kind, str]]:
    place: dict[str, int] = {}
    for offset, value in rows:
        place.setdefault(value, offset)
    by_producer: dict[int, list[Send]] = defaultdict(list)
    for send in set(sends):
        by_producer[send.producer].append(send)
    for producer, own in by_producer.items():
        last = -1
        for send in sorted(own, key=lambda send: send.sequence):
            for value in send.values:
                offset = place.get(value, last)
                if offset < last:
                    yield Kind.NON_MONOTONIC_SEND, f"{value} of {producer} at {offset} < {last}"
                last = offset
