"""An idempotent producer as a program: it sends at a pace until it is told to stop, then flushes.

    python -m tests.support.chaos_producer --bootstrap … --journal FILE --rate 1000 \
        --topic orders:6:keyed --topic clicks:4:explicit

The journal, whose name is the producer's, holds every value before it is sent and every answer. The
number of acknowledged records is printed as it grows. Ends with 0 when everything is answered.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from zlib import crc32

from confluent_kafka import KafkaError, Producer

from tests.support.chaos_journal import Journal, Value
from tests.support.chaos_life import Life

_BURST: Final = 40
_FLUSH_S: Final = 600.0
_KEYS: Final = 50
_ANY: Final = -1
_BEHIND_S: Final = 0.5


class Target(NamedTuple):
    """A topic, and whether the key chooses the partition or the producer does."""

    topic: str
    partitions: int
    keyed: bool

    @classmethod
    def parse(cls, text: str) -> "Target":
        topic, partitions, how = text.split(":")
        return cls(topic, int(partitions), how == "keyed")


class Record(NamedTuple):
    """What is about to be sent, and where it must arrive."""

    topic: str
    partition: int
    key: bytes | None
    value: Value


class Plan:
    """Which record comes next: unique values, numbered per partition."""

    def __init__(self, name: str, targets: list[Target]) -> None:
        self._name = name
        self._targets = targets
        self._random = Random(name)
        self._next: dict[str, int] = defaultdict(int)

    def records(self, count: int) -> Iterator[Record]:
        for _ in range(count):
            target = self._random.choice(self._targets)
            if target.keyed:
                key = b"key-%d" % self._random.randrange(_KEYS)
                # The partitioner `consistent` of librdkafka.
                partition = crc32(key) % target.partitions
            else:
                key, partition = None, self._random.randrange(target.partitions)
            place = f"{target.topic}-{partition}"
            yield Record(target.topic, partition, key, Value(self._name, place, self._next[place]))
            self._next[place] += 1


class Sender:
    """Hands records to librdkafka and keeps the journal."""

    def __init__(self, bootstrap: str, journal: Journal, padding: int) -> None:
        self._journal = journal
        self._padding = padding
        self._answers: list[tuple[str, str, int]] = []
        self._transmitted = 0
        self._statistics = 0
        self.acknowledged = 0
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "partitioner": "consistent",
                "message.timeout.ms": int(_FLUSH_S * 1000),
                "queue.buffering.max.messages": 20_000,
                "reconnect.backoff.max.ms": 1000,
                "statistics.interval.ms": 500,
                "stats_cb": self._count_transmitted,
                "log_level": 0,
            }
        )

    def send(self, records: list[Record]) -> None:
        self._journal.write("send", [str(record.value) for record in records])
        for record in records:
            self._produce(record)
        self.note_answers()

    def note_answers(self, within_s: float = 0.0) -> None:
        self.producer.poll(within_s)
        if self._answers:
            self._journal.write("ack", self._answers)
            self.acknowledged += len(self._answers)
            self._answers = []

    def finish(self) -> bool:
        """Whether everything sent was answered."""
        deadline = time.monotonic() + _FLUSH_S
        while len(self.producer) and time.monotonic() < deadline:
            self.note_answers(0.1)
        self.note_answers()
        seen = self._statistics
        while self._statistics == seen and time.monotonic() < deadline:
            self.producer.poll(0.1)
        self._journal.write("resent", self._transmitted - self.acknowledged)
        return not len(self.producer)

    def _produce(self, record: Record) -> None:
        # A key chooses by itself; whether it chose well is checked with the answer.
        partition = _ANY if record.key is not None else record.partition
        while True:
            try:
                self.producer.produce(
                    record.topic,
                    value=str(record.value).encode(),
                    key=record.key,
                    partition=partition,
                    headers=self._headers(),
                    on_delivery=self._delivered,
                )
                return
            except BufferError:
                self.note_answers(0.1)

    def _headers(self) -> list[tuple[str, str | bytes | None]]:
        """Bytes that nothing makes smaller, for those who want large records."""
        return [("padding", os.urandom(self._padding))] if self._padding else []

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        value = message.value().decode()
        if error is not None:
            self._journal.write("error", value, str(error))
        else:
            place = f"{message.topic()}-{message.partition()}"
            self._answers.append((value, place, message.offset()))

    def _count_transmitted(self, text: str) -> None:
        self._statistics += 1
        topics = json.loads(text)["topics"].values()
        self._transmitted = sum(
            partition["txmsgs"] for topic in topics for partition in topic["partitions"].values()
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--topic", type=Target.parse, action="append", required=True)
    parser.add_argument("--padding", type=int, default=0)
    given = parser.parse_args()
    life = Life()
    plan = Plan(given.journal.name, given.topic)
    sender = Sender(given.bootstrap, Journal(given.journal), given.padding)
    due = time.monotonic()
    while life.goes_on:
        sender.send(list(plan.records(_BURST)))
        print(sender.acknowledged, flush=True)
        # What an outage held up is not caught up with at once.
        due = max(due + _BURST / given.rate, time.monotonic() - _BEHIND_S)
        while (left_s := due - time.monotonic()) > 0:
            sender.note_answers(left_s)
    done = sender.finish()
    print(sender.acknowledged, flush=True)
    return 0 if done else 1


if __name__ == "__main__":
    raise SystemExit(main())
