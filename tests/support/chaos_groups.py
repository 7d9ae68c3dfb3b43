"""A checker of what a consumer group got and committed, beside `checker` for the log itself.

Pure. A claim is one assignment of a partition to one member, until the next one of that member.
A group may get a record more than once, over a change of its members only; never not at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tests.support.checker import Row


class GroupKind(StrEnum):
    """What can be wrong with a group."""

    UNDELIVERED = "never delivered to the group"
    AHEAD = "began above everything that was committed"
    FORGOTTEN = "began below a commit that was confirmed before"
    UNPOLLED = "committed above what was polled"
    BEHIND = "the group did not reach the end"


class GroupAnomaly(NamedTuple):
    """One thing that must not be."""

    kind: GroupKind
    partition: str
    facts: str


@dataclass(slots=True, kw_only=True)
class Claim:
    """One assignment, and what was polled under it: the time of the first row with it."""

    partition: str
    assigned_at: float
    first_row_at: float | None = None
    rows: list[Row] = field(default_factory=list)


class Commit(NamedTuple):
    """An offset that a member asked to commit, or that was confirmed to it."""

    at: float
    offset: int


@dataclass(slots=True)
class GroupHistory:
    """Everything that the members of one group saw."""

    claims: list[Claim] = field(default_factory=list)
    asked: dict[str, list[Commit]] = field(default_factory=lambda: defaultdict(list))
    confirmed: dict[str, list[Commit]] = field(default_factory=lambda: defaultdict(list))
    stored: dict[str, int] = field(default_factory=dict)
    """What the brokers say at the end that the group has committed."""


def group_anomalies(history: GroupHistory, ends: Mapping[str, int]) -> list[GroupAnomaly]:
    """All that is wrong, given the end of each partition."""
    return [
        GroupAnomaly(kind, partition, facts)
        for partition, end in sorted(ends.items())
        for kind, facts in _check(history, partition, end)
    ]


def _check(history: GroupHistory, partition: str, end: int) -> Iterable[tuple[GroupKind, str]]:
    claims = [claim for claim in history.claims if claim.partition == partition]
    asked = history.asked.get(partition, [])
    confirmed = history.confirmed.get(partition, [])
    stored = history.stored.get(partition, 0)
    polled = {offset for claim in claims for offset, _ in claim.rows}
    for offset in _first_few(offset for offset in range(end) if offset not in polled):
        yield GroupKind.UNDELIVERED, f"{offset} of {end}"
    if stored < end:
        yield GroupKind.BEHIND, f"{stored} of {end} is committed"
    if stored > max(polled, default=-1) + 1:
        yield GroupKind.UNPOLLED, f"{stored} is committed, {max(polled, default=-1)} polled"
    for claim in claims:
        yield from _check_start(claim, asked, confirmed)


def _check_start(
    claim: Claim, asked: Sequence[Commit], confirmed: Sequence[Commit]
) -> Iterable[tuple[GroupKind, str]]:
    """An owner begins at the newest commit: between the confirmed ones and those asked for."""
    if not claim.rows or claim.first_row_at is None:
        return
    first = claim.rows[0][0]
    least = max((each.offset for each in confirmed if each.at < claim.assigned_at), default=0)
    most = max((each.offset for each in asked if each.at < claim.first_row_at), default=0)
    if first < least:
        yield GroupKind.FORGOTTEN, f"began at {first}, {least} was committed"
    if first > most:
        yield GroupKind.AHEAD, f"began at {first}, at most {most} was committed"


def _first_few(found: Iterable[int], few: int = 20) -> Iterable[int]:
    """A lost partition needs no million lines."""
    return (offset for offset, _ in zip(found, range(few), strict=False))
