"""The brokers that the ingress benchmarks compare, on one machine at the same time.

Every contender names what an acknowledgement means there: ours comes after the fsync of the WAL
segment, of its folder and of the metadata store (SQLite, synchronous=FULL). Kafka runs with the
options that its own start script gives the JVM; the same node serves a topic that is left to the
page cache and one with `flush.messages=1`. CPU time is that of the broker's process tree; clients
are not in it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.benchmarks.servers import scratch
from tests.support.ingress_process import ingress
from tests.support.kafka_oracle import kafka_node

PARTITIONS: Final = 6
WARM_UP: Final = "bench-warm-up"
"""A topic for what clients send before they are measured."""
LATENCY: Final = "ours latency"
COST: Final = "ours cost"
KAFKA: Final = "Kafka"
KAFKA_SYNC: Final = "Kafka flush=1"
_WITHIN_S: Final = 60.0
_numbers: Final = count()

# What bin/kafka-server-start.sh and bin/kafka-run-class.sh of Apache Kafka set.
KAFKA_JVM: Final = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
KAFKA_SETTINGS: Final = {"log.segment.delete.delay.ms": "1000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A running broker, and the topics that are measured on it."""

    name: str
    durability: str
    bootstrap: str
    process: psutil.Process
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def cpu_s(self) -> float:
        """CPU-seconds that the broker has used so far, with its children."""
        alive = [self.process, *self.process.children(recursive=True)]
        times = [each.cpu_times() for each in alive]
        return sum(each.user + each.system for each in times)

    def rss(self) -> int:
        alive = [self.process, *self.process.children(recursive=True)]
        return sum(each.memory_info().rss for each in alive)

    @contextmanager
    def topic(self, partitions: int = PARTITIONS, name: str = "") -> Iterator[str]:
        """A new topic, gone at the end."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        name = name or f"bench-{next(_numbers)}"
        new = NewTopic(name, partitions, 1, config=dict(self.topic_config))
        admin.create_topics([new], request_timeout=_WITHIN_S)[name].result()
        try:
            yield name
        finally:
            admin.delete_topics([name], request_timeout=_WITHIN_S)[name].result()


@contextmanager
def contenders(*names: str) -> Iterator[dict[str, Contender]]:
    """The named ones, ready to serve."""
    with ExitStack() as stack:
        found: dict[str, Contender] = {}
        if {LATENCY, COST} & set(names):
            found |= stack.enter_context(_ours())
        if {KAFKA, KAFKA_SYNC} & set(names):
            found |= stack.enter_context(_kafka())
        chosen = {name: found[name] for name in names}
        for contender in {each.bootstrap: each for each in chosen.values()}.values():
            stack.enter_context(contender.topic(name=WARM_UP))
        yield chosen


@contextmanager
def _ours() -> Iterator[dict[str, Contender]]:
    with scratch() as folder, ingress(folder) as started:
        (listening,) = started.ready()
        process = psutil.Process(started.process.pid)
        yield {
            name: Contender(
                name=name,
                durability=f"fsync ≤ {flush}",
                bootstrap=listening.kafka,
                process=process,
                topic_config={"lakestream.profile": profile},
            )
            for name, profile, flush in (
                (LATENCY, "latency", "2 ms"),
                (COST, "cost", "250 ms"),
            )
        }


@contextmanager
def _kafka() -> Iterator[dict[str, Contender]]:
    with kafka_node(KAFKA_SETTINGS, jvm=KAFKA_JVM) as node:
        process = psutil.Process(node.pid)
        yield {
            name: Contender(
                name=name,
                durability=durability,
                bootstrap=node.bootstrap,
                process=process,
                topic_config=config,
            )
            for name, durability, config in (
                (KAFKA, "page cache", {}),
                (KAFKA_SYNC, "fsync each append", {"flush.messages": "1"}),
            )
        }


def run_clients(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Start the clients, let them begin together when all are ready, and return what they say.

    What other processes left unwritten goes to the disk first, so that nobody pays for the turn of
    another.
    """
    with ExitStack() as stack:
        started = [stack.enter_context(_client(spec)) for spec in specs]
        for client in started:
            said = _line(client)
            assert said == "ready", said
        os.sync()
        for client in started:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        return [json.loads(_line(client)) for client in started]


@contextmanager
def _client(spec: Mapping[str, Any]) -> Iterator["subprocess.Popen[str]"]:
    client = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.kafka_clients", json.dumps(spec)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield client
    finally:
        client.kill()
        client.communicate()


def _line(client: "subprocess.Popen[str]") -> str:
    assert client.stdout is not None
    line = client.stdout.readline().strip()
    assert line, "a client ended before it was done; what it said is above"
    return line
