"""The chaos run: brokers, producers, groups and a watcher, a nemesis, then heal and read it all.

start ─► strike until time and records are enough ─► heal ─► producers flush ─► the groups and
the watcher reach the end ─► a fresh consumer reads all ─► the checkers count every anomaly
"""

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.chaos_brokers import three_brokers
from tests.support.chaos_clients import Seat
from tests.support.chaos_evidence import Evidence, gather
from tests.support.chaos_groups import group_anomalies
from tests.support.chaos_nemesis import Nemesis, Pace
from tests.support.checker import Row

TOPICS: Final = {"orders": 6, "clicks": 4}
PARTITIONS: Final = [(topic, n) for topic, count in TOPICS.items() for n in range(count)]
PROFILES: Final = {"orders": "cost", "clicks": "latency"}
PRODUCERS: Final = ("anna", "bert", "cleo")
GROUPS: Final = ("eager", "steady")
_STRATEGY: Final = {"eager": "roundrobin", "steady": "cooperative-sticky"}
_DRAIN_S: Final = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How long and how much at least; the run takes more time when records are slow to come."""

    seconds: float
    records: int
    rate: float
    members: int
    pace: Pace
    session_ms: int
    padding: int = 0
    """Bytes of each record beside its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was wrong, and figures."""

    anomalies: Sequence[str]
    counts: Counter[str]
    worst_lag_s: float
    seconds: float

    def __str__(self) -> str:
        figures = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return (
            f"{len(self.anomalies)} anomalies after {self.seconds:.0f} s of chaos; {figures}; "
            f"worst lag from acknowledged to visible {self.worst_lag_s:.2f} s"
        )


def run_chaos(folder: Path, size: Size, random: Random, settings: Sequence[str]) -> Report:
    """One run in an empty folder; `settings` say where the brokers store things."""
    journals = folder / "journals"
    journals.mkdir()
    own = (f"groups.min_session_timeout_ms={size.session_ms}", *settings)
    with three_brokers(folder / "data", own) as brokers:
        _create_topics(brokers.bootstrap)
        clients = Clients(brokers.bootstrap, journals, size)
        with clients.at_work():
            nemesis = Nemesis(brokers, clients, random, size.pace)
            began = time.monotonic()
            nemesis.run(lambda: _goes_on(clients, size, began))
            took_s = time.monotonic() - began
            clients.end_sending()
            nemesis.heal()
            clients.flush()
            final = read_all(brokers.bootstrap)
            stored = {group: _drained(brokers.bootstrap, group, final) for group in GROUPS}
            clients.stop()
    report = _report(journals, final, stored, brokers.counts + nemesis.counts, took_s)
    return replace(report, anomalies=[*report.anomalies, *brokers.complaints()])


class Clients:
    """All client processes, by the seats they take."""

    def __init__(
        self, bootstrap: str, journals: Path, size: Size, *, replays: bool = False
    ) -> None:
        where = ["--bootstrap", bootstrap]
        topics = [f"--topic={topic}:{count}" for topic, count in TOPICS.items()]
        targets = [
            f"--topic={t}:{n}:{'keyed' if t == 'orders' else 'explicit'}" for t, n in TOPICS.items()
        ]
        flow = [f"--rate={size.rate / len(PRODUCERS)}", f"--padding={size.padding}"]
        self.producers = [
            Seat(
                "chaos_producer",
                journals,
                f"producer.{name}",
                [*where, *targets, *flow],
            )
            for name in PRODUCERS
        ]
        self.members = [
            Seat(
                "chaos_consumer",
                journals,
                f"{group}.{number}",
                [*where, *topics, *_membership(group, number, size)],
            )
            for group in GROUPS
            for number in range(size.members)
        ]
        self.watcher = Seat("chaos_consumer", journals, "watcher.only", [*where, *topics])
        replayer = Seat("chaos_replayer", journals, "replayer.only", [*where, *topics])
        self.replayers = [replayer] if replays else []

    @property
    def acknowledged(self) -> int:
        return sum(seat.progress for seat in self.producers)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Whoever still runs at the end is killed."""
        seats = [self.watcher, *self.replayers, *self.members, *self.producers]
        try:
            for seat in seats:
                seat.start()
            yield
        finally:
            for seat in seats:
                if seat.client is not None:
                    seat.kill()

    def end_sending(self) -> None:
        for seat in self.producers:
            seat.tell_to_stop()

    def flush(self) -> None:
        """The producers end when everything they sent is answered."""
        self.end_sending()  # One may have been started since.
        for seat in self.producers:
            seat.ended()

    def stop(self) -> None:
        seats = [self.watcher, *self.replayers, *self.members]
        for seat in seats:
            seat.tell_to_stop()
        for seat in seats:
            seat.ended()


def _membership(group: str, number: int, size: Size) -> list[str]:
    """In the cooperative group every other member is static."""
    words = [f"--group={group}", f"--set=partition.assignment.strategy={_STRATEGY[group]}"]
    words.append(f"--set=session.timeout.ms={size.session_ms}")
    words.append(f"--set=heartbeat.interval.ms={size.session_ms // 6}")
    if group == "steady" and number % 2 == 0:
        words.append(f"--instance=steady-{number}")
    return words


def _goes_on(clients: Clients, size: Size, began: float) -> bool:
    seconds = time.monotonic() - began
    assert seconds < 4 * size.seconds + 120, f"only {clients.acknowledged} records were taken"
    return seconds < size.seconds or clients.acknowledged < size.records


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [
        NewTopic(topic, count, 1, config={"lakestream.profile": PROFILES[topic]})
        for topic, count in TOPICS.items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(60)


def read_all(bootstrap: str) -> dict[str, list[Row]]:
    """Everything, from offset 0 to the high watermarks, by a consumer that knows nothing yet."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "final-read",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    found: dict[str, list[Row]] = {f"{topic}-{n}": [] for topic, n in PARTITIONS}
    try:
        places = [TopicPartition(topic, n, 0) for topic, n in PARTITIONS]
        ends = [consumer.get_watermark_offsets(place, timeout=60)[1] for place in places]
        left = sum(ends)
        consumer.assign(places)
        while left > 0:
            messages = consumer.consume(min(left, 10_000), 60)
            assert messages, f"{left} of {sum(ends)} records do not come"
            for message in messages:
                assert message.error() is None, message.error()
                name = f"{message.topic()}-{message.partition()}"
                found[name].append((message.offset() or 0, (message.value() or b"").decode()))
            left -= len(messages)
    finally:
        consumer.close()
    return found


def _drained(bootstrap: str, group: str, final: dict[str, list[Row]]) -> dict[str, int]:
    """What the group has committed, once it is everything; or when patience ends."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, n) for topic, n in PARTITIONS]
    deadline = time.monotonic() + _DRAIN_S
    try:
        stored: dict[str, int] = {}
        while time.monotonic() < deadline:
            with suppress(KafkaException):  # A coordinator may just now be chosen.
                committed = consumer.committed(places, timeout=30)
                stored = {f"{each.topic}-{each.partition}": each.offset for each in committed}
            if all(stored.get(name, 0) >= len(rows) for name, rows in final.items()):
                break
            time.sleep(0.2)
        return stored
    finally:
        consumer.close()


def _report(
    journals: Path,
    final: dict[str, list[Row]],
    stored: dict[str, dict[str, int]],
    counts: Counter[str],
    seconds: float,
) -> Report:
    gc.disable()  # It would walk through millions of rows again and again.
    try:
        return _judge(gather(journals), final, stored, counts, seconds)
    finally:
        gc.enable()


def _judge(
    evidence: Evidence,
    final: dict[str, list[Row]],
    stored: dict[str, dict[str, int]],
    counts: Counter[str],
    seconds: float,
) -> Report:
    found = evidence.anomalies(final) + evidence.errors
    ends = {name: len(rows) for name, rows in final.items()}
    for group, committed in stored.items():
        evidence.groups[group].stored = committed
        found += [f"{group}: {each}" for each in group_anomalies(evidence.groups[group], ends)]
    unseen = evidence.acked_at.keys() - evidence.seen_at.keys()
    found += [f"the watcher never saw {value}" for value in sorted(unseen)[:20]]
    counts = counts + evidence.counts + Counter(records=sum(ends.values()))
    return Report(anomalies=found, counts=counts, worst_lag_s=evidence.worst_lag_s, seconds=seconds)
