"""A consumer as a program: a member of a group, or a watcher of all partitions without one.

    python -m tests.support.chaos_consumer --bootstrap … --journal FILE --topic orders:6 \
        --group readers [--instance reader-1] [--set partition.assignment.strategy=…]

What always holds: a record is in the journal before its offset is committed, and every assignment
of a partition is in the journal before the first record that it brings. SIGTERM makes it
commit and leave. The number of records it polled is printed as it grows.
"""

import argparse
import logging
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.chaos_journal import Journal
from tests.support.chaos_life import Life

_NOTE_EVERY_S: Final = 0.1
_COMMIT_EVERY_S: Final = 0.5
_WARNINGS: Final = 4
"""Of the levels of syslog."""
FATAL: Final = 3
"""How it ends when the client library gives up for good."""


def _name(place: Any) -> str:
    """Of a message or a partition of the client library, whose attributes differ."""
    if callable(place.topic):
        return f"{place.topic()}-{place.partition()}"
    return f"{place.topic}-{place.partition}"


class Reader:
    """Notes what it polls; in a group it also commits."""

    def __init__(self, config: dict[str, Any], journal: Journal, *, commits: bool) -> None:
        self._journal = journal
        self._commits = commits
        self._rows: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._positions: dict[str, TopicPartition] = {}
        self._count = 0
        self._noted = self._committed = time.monotonic()
        self.consumer = Consumer(config, logger=_telling_of_resets(journal))

    def subscribe(self, topics: list[str]) -> None:
        self.consumer.subscribe(
            topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def poll(self) -> None:
        message = self.consumer.poll(_NOTE_EVERY_S)
        now = time.monotonic()
        if message is not None:
            self._take(message)
        if now >= self._noted + _NOTE_EVERY_S:
            self.note()
        if self._commits and now >= self._committed + _COMMIT_EVERY_S:
            self.commit()

    def note(self) -> None:
        self._noted = time.monotonic()
        for name, rows in self._rows.items():
            self._journal.write("rows", name, rows)
            self._count += len(rows)
        self._rows.clear()
        print(self._count, flush=True)

    def commit(self) -> None:
        """What was polled since the last commit; a refusal leaves it to the next owner."""
        self.note()
        positions = list(self._positions.values())
        self._positions.clear()
        if positions:
            asked = [(_name(each), each.offset) for each in positions]
            self._journal.write("asked", asked)
            try:
                results = self.consumer.commit(offsets=positions, asynchronous=False)
            except KafkaException as error:
                self._journal.write("refused", str(error))
            else:
                good = [(_name(each), each.offset) for each in results if each.error is None]
                self._journal.write("committed", good)
        self._committed = time.monotonic()

    def close(self) -> None:
        if self._commits:
            self.commit()
        self.note()
        self.consumer.close()

    def _take(self, message: Any) -> None:
        error: KafkaError | None = message.error()
        if error is not None:
            self._journal.write("fatal" if error.fatal() else "error", str(error))
            if error.fatal():
                raise SystemExit(FATAL)
            return
        name = _name(message)
        self._rows[name].append((message.offset(), message.value().decode()))
        self._positions[name] = TopicPartition(
            message.topic(), message.partition(), message.offset() + 1
        )

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.note()
        names = [_name(each) for each in partitions]
        for name in names:
            self._positions.pop(name, None)
        self._journal.write("assign", names)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.commit()
        self._journal.write("revoke", [_name(each) for each in partitions])

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.note()
        for each in partitions:
            self._positions.pop(_name(each), None)
        self._journal.write("lost", [_name(each) for each in partitions])


def _telling_of_resets(journal: Journal) -> logging.Logger:
    """Notes that a broker sent the client to another offset; nothing here ever expires."""

    class Resets(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told = record.getMessage()
            if "offset reset" in told and ("out of range" in told or "truncat" in told):
                journal.write("reset", told)

    logger = logging.getLogger("chaos-consumer")
    logger.propagate = False
    logger.addHandler(Resets(logging.WARNING))
    return logger


def _config(given: argparse.Namespace) -> dict[str, Any]:
    config = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group or "watchers-without-a-group",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 200,
        "reconnect.backoff.max.ms": 1000,
        "log_level": _WARNINGS,
    }
    if given.instance:
        config["group.instance.id"] = given.instance
    return config | dict(text.split("=", 1) for text in given.set)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--topic", action="append", required=True)
    parser.add_argument("--group")
    parser.add_argument("--instance")
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    life = Life()
    topics = {name: int(count) for name, count in (text.split(":") for text in given.topic)}
    journal = Journal(given.journal)
    reader = Reader(_config(given), journal, commits=given.group is not None)
    if given.group is not None:
        reader.subscribe(list(topics))
    else:
        reader.consumer.assign(
            [TopicPartition(topic, n, 0) for topic, count in topics.items() for n in range(count)]
        )
    while life.goes_on:
        reader.poll()
    reader.close()
    journal.write("closed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
