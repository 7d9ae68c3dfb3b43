"""A consumer as a program that reads everything from offset 0, again and again.

    python -m tests.support.chaos_replayer --bootstrap … --journal FILE --topic orders:6

What always holds in every pass: a partition is dense from 0 to its end, and what an offset held in
an earlier pass it holds in this one; anything else is in the journal. The number of passes is
printed as it grows.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.support.chaos_journal import Journal
from tests.support.chaos_life import Life

_POLL_S: Final = 0.5
_SHOWN: Final = 20


class Replayer:
    """Remembers every value it saw."""

    def __init__(self, config: dict[str, Any], places: list[TopicPartition], journal: Journal):
        self._config = config
        self._places = places
        self._journal = journal
        self._known: dict[str, list[str]] = defaultdict(list)
        self._complaints = 0

    def replay(self, life: Life) -> bool:
        """One pass from 0 to the end of every partition; False if it was cut short."""
        consumer = Consumer(self._config)
        positions: dict[str, int] = defaultdict(int)
        ended: set[str] = set()
        try:
            consumer.assign(self._places)
            while life.goes_on and len(ended) < len(self._places):
                message = consumer.poll(_POLL_S)
                if message is not None:
                    self._take(message, positions, ended)
        finally:
            consumer.close()
        return life.goes_on

    def _take(self, message: Message, positions: dict[str, int], ended: set[str]) -> None:
        name = f"{message.topic()}-{message.partition()}"
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                ended.add(name)
            elif error.fatal() or not error.retriable():
                self._complain(f"{name}: {error}")
            return
        offset, value = message.offset() or 0, (message.value() or b"").decode()
        if offset != positions[name]:
            self._complain(f"{name}: offset {offset} came where {positions[name]} was due")
        positions[name] = offset + 1
        known = self._known[name]
        if offset == len(known):
            known.append(value)
        elif offset > len(known) or known[offset] != value:
            self._complain(f"{name}: offset {offset} is not what it was before")

    def _complain(self, text: str) -> None:
        self._complaints += 1
        if self._complaints <= _SHOWN:
            self._journal.write("anomaly", text)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--topic", action="append", required=True)
    given = parser.parse_args()
    life, journal = Life(), Journal(given.journal)
    topics = {name: int(count) for name, count in (text.split(":") for text in given.topic)}
    places = [TopicPartition(topic, n, 0) for topic, count in topics.items() for n in range(count)]
    config = {
        "bootstrap.servers": given.bootstrap,
        "group.id": "replayers-without-a-group",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 200,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 0,
    }
    replayer = Replayer(config, places, journal)
    passes = 0
    while replayer.replay(life):
        passes += 1
        journal.write("pass", passes)
        print(passes, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
