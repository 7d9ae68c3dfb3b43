"""From the journals of all clients to what the checkers take, and figures for the report."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.chaos_groups import Claim, Commit, GroupHistory
from tests.support.chaos_journal import Event, Value, events
from tests.support.checker import Ack, History, Poll, Row, Send, anomalies


@dataclass(slots=True)
class Evidence:
    """What all clients saw, by partition."""

    logs: dict[str, History] = field(default_factory=lambda: defaultdict(History))
    groups: dict[str, GroupHistory] = field(default_factory=lambda: defaultdict(GroupHistory))
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    """What a producer was told in the end, or a consumer for good: always a fault."""
    acked_at: dict[str, float] = field(default_factory=dict)
    seen_at: dict[str, float] = field(default_factory=dict)

    @property
    def worst_lag_s(self) -> float:
        """From an acknowledgement to the watcher's journal, at worst."""
        lags = (self.seen_at[v] - at for v, at in self.acked_at.items() if v in self.seen_at)
        return max(lags, default=0.0)

    def anomalies(self, final: Mapping[str, Sequence[Row]]) -> list[str]:
        """What the checker of the log finds, partition by partition."""
        names = sorted(set(self.logs) | set(final))
        return [
            str(found)
            for name in names
            for found in anomalies(self.logs[name], {name: final.get(name, ())})
        ]


def gather(folder: Path) -> Evidence:
    """Read all journals: `producer.NAME`, `watcher.NAME`, `replayer.NAME`, `GROUP.NAME`."""
    evidence = Evidence()
    for number, path in enumerate(sorted(folder.iterdir())):
        role = path.name.partition(".")[0]
        if role == "producer":
            _read_producer(evidence, number, events(path))
        elif role == "watcher":
            _read_watcher(evidence, events(path))
        elif role == "replayer":
            _read_replayer(evidence, events(path))
        else:
            _read_member(evidence, evidence.groups[role], events(path))
    return evidence


def _read_producer(evidence: Evidence, producer: int, lines: Iterable[Event]) -> None:
    for kind, at, facts in lines:
        if kind == "send":
            for text in facts[0]:
                value = Value.parse(text)
                send = Send(value.partition, producer, value.number, (text,))
                evidence.logs[value.partition].sends.append(send)
        elif kind == "ack":
            for text, place, offset in facts[0]:
                number = Value.parse(text).number
                evidence.logs[place].acks.append(Ack(place, producer, number, offset, (text,)))
                evidence.acked_at[text] = at
                evidence.counts["acknowledged"] += 1
        elif kind == "resent":
            evidence.counts["resent"] += facts[0]
        elif kind == "error":
            evidence.errors.append(f"{facts[0]}: {facts[1]}")


def _read_watcher(evidence: Evidence, lines: Iterable[Event]) -> None:
    """It has one assignment for all its life: it may skip nothing, ever."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for kind, at, facts in lines:
        if kind == "rows":
            own = _rows(facts[1])
            rows[facts[0]] += own
            evidence.seen_at.update((value, at) for _, value in own)
        elif kind in ("fatal", "reset"):
            evidence.errors.append(facts[0])
    for name, own in rows.items():
        evidence.logs[name].polls.append(Poll(name, own))


def _read_replayer(evidence: Evidence, lines: Iterable[Event]) -> None:
    for kind, _, facts in lines:
        if kind == "anomaly":
            evidence.errors.append(f"a replay: {facts[0]}")
        else:
            evidence.counts["replays"] += 1


class _Kept:
    """A partition that a cooperative member keeps over rebalances.

    librdkafka pauses and resumes it, and may go back then (its issue 4637): to the record that it
    handed out last, or to where it was paused, if nothing had been handed out by then. What comes
    once more must be what came, in its order; anything else is a fault. That a broker sent the
    client back is noted as a "reset", which is always one.
    """

    def __init__(self, claim: Claim, counts: Counter[str]) -> None:
        self._claim = claim
        self._counts = counts
        self._paused_empty = False
        self._repeats: int | None = None
        """The place in the claim of the row that comes once more next."""
        self._resumed = False

    def resumes(self) -> None:
        self._paused_empty |= not self._claim.rows
        self._resumed = True

    def fresh(self, rows: list[Row]) -> list[Row]:
        """Without those that come once more."""
        known = self._claim.rows
        if self._resumed and known:
            place = rows[0][0] - known[0][0]
            if place == len(known) - 1 or (place == 0 and self._paused_empty):
                self._repeats = place
        self._resumed = False
        index = 0
        while self._repeats is not None and index < len(rows):
            if self._repeats >= len(known) or rows[index] != known[self._repeats]:
                self._repeats = None
                break
            self._repeats += 1
            index += 1
            self._counts["repeated at a rebalance"] += 1
        return rows[index:]


def _read_member(evidence: Evidence, group: GroupHistory, lines: Iterable[Event]) -> None:
    claims: dict[str, Claim] = {}
    kept: dict[str, _Kept] = {}
    for kind, at, facts in lines:
        if kind == "assign":
            evidence.counts["assignments"] += 1
            for name in set(claims) - set(facts[0]):
                kept[name].resumes()
            for name in facts[0]:
                claims[name] = Claim(partition=name, assigned_at=at)
                kept[name] = _Kept(claims[name], evidence.counts)
                group.claims.append(claims[name])
                evidence.logs[name].polls.append(Poll(name, claims[name].rows))
        elif kind == "rows":
            name, rows = facts
            claim = claims[name]
            claim.first_row_at = claim.first_row_at or at
            own = kept[name].fresh(_rows(rows))
            claim.rows += own
            evidence.counts["delivered"] += len(rows)
        elif kind in ("asked", "committed"):
            commits = group.asked if kind == "asked" else group.confirmed
            for name, offset in facts[0]:
                commits[name].append(Commit(at, offset))
        elif kind in ("refused", "lost"):
            evidence.counts[kind] += 1
        elif kind in ("fatal", "reset"):
            evidence.errors.append(facts[0])


def _rows(pairs: Iterable[tuple[int, str]]) -> list[Row]:
    return [(offset, value) for offset, value in pairs]
