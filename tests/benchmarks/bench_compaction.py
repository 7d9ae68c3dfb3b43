"""Compaction of a backlog against what a user does today: Kafka, Spark's `kafka` source, a table.

The same JSON events lie as lz4 batches in both logs. Each contender has a Spark of its own with the
same settings (local[2]) and has drained a smaller topic before; then they take turns. MB are those
of keys and values; wall time runs from the call to the end of a drain with everything committed.
CPU is that of driver, JVM and Python workers; what Kafka's broker uses meanwhile is beside it,
compaction reads the WAL without a broker. Table bytes are compared with the bytes of Kafka's log.
"""

import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from tests.benchmarks.brokers import KAFKA_JVM
from tests.benchmarks.drains import DELTA, ICEBERG, OURS, PEERS, Drainer, drainer
from tests.benchmarks.events import EVENT_BYTES, client, create, result
from tests.benchmarks.harness import GB, MB, Aim, Options, Report, in_turns, progress, run
from tests.benchmarks.process_tree import cpu_s
from tests.benchmarks.servers import scratch
from tests.support.ingress_process import ingress
from tests.support.kafka_oracle import KafkaNode

PARTITIONS: Final = 4
WARM_UP: Final = "before"
_DEFAULT: Final = (2_400_000_000, 3)
_QUICK: Final = (4_000_000, 1)


class Turn(NamedTuple):
    """One drain of one contender."""

    wall_s: float
    cpu_s: float
    broker_cpu_s: float
    table_bytes: int
    files: int


class Backlog(NamedTuple):
    """What lies in both logs."""

    bytes: int
    records: int
    kafka_log_bytes: int


@contextmanager
def kafka(folder: Path) -> Iterator[KafkaNode]:
    folder.mkdir()
    node = KafkaNode(folder, jvm=KAFKA_JVM)
    try:
        node.start()
        yield node
    finally:
        node.kill()


def filled(bootstrap: str, topic: str, size: int) -> tuple[int, int]:
    """Bytes and records of a topic that is new."""
    progress(f"filling {topic}")
    # The events are years old: Kafka would delete them by its default while others take turns.
    create(bootstrap, [topic], PARTITIONS, retention_ms="-1")
    spec = {"role": "fill", "bootstrap": bootstrap, "topic": topic, "partitions": PARTITIONS}
    sent = result(client(**spec, count=size // EVENT_BYTES))
    return sent["bytes"], sent["records"]


def backlog(kafka_at: KafkaNode, folder: Path, own: Path, total: int, rounds: int) -> Backlog:
    """The same events in both logs; ours in a topic for every round, because it is drained once."""
    filled(kafka_at.bootstrap, WARM_UP, total // 6)
    size, records = filled(kafka_at.bootstrap, "round", total)
    with ingress(own) as broker:
        (listening,) = broker.ready()
        filled(listening.kafka, WARM_UP, total // 6)
        for number in range(rounds):
            assert filled(listening.kafka, f"round-{number}", total) == (size, records)
        assert broker.stop() == 0
    logs = (folder / "data").glob("round-*/*.log")
    return Backlog(size, records, sum(log.stat().st_size for log in logs))


async def compare(
    report: Report, started: dict[str, Drainer], node: KafkaNode, held: Backlog, rounds: int
) -> dict[str, list[Turn]]:
    broker = psutil.Process(node.pid)

    def turn(name: str, by: Drainer) -> Callable[[int], Awaitable[Turn]]:
        async def take(number: int) -> Turn:
            before, broker_before = cpu_s(by.process), cpu_s(broker)
            done = by.drain(f"round-{number}" if name == OURS else "round")
            assert done["records"] == held.records, (name, done)
            return Turn(
                done["wall_s"],
                cpu_s(by.process) - before,
                cpu_s(broker) - broker_before,
                done["bytes"],
                done["files"],
            )

        return take

    turns = await in_turns(rounds, {name: turn(name, by) for name, by in started.items()})
    for name, own in turns.items():
        add(report, name, own, held)
    return turns


def add(report: Report, name: str, own: list[Turn], held: Backlog) -> None:
    rates = sorted(held.bytes / MB / each.wall_s for each in own)
    cpu = sorted(each.cpu_s / held.bytes * GB for each in own)
    report.add(
        who=PEERS.get(name, name),
        mb=held.bytes / MB,
        mb_per_s=statistics.median(rates),
        mb_per_s_spread=f"{rates[0]:.0f}–{rates[-1]:.0f}",
        cpu_s_per_gb=statistics.median(cpu),
        cpu_spread=f"{cpu[0]:.1f}–{cpu[-1]:.1f}",
        broker_cpu_s_per_gb=statistics.median(e.broker_cpu_s for e in own) / held.bytes * GB,
        of_kafkas_log=own[0].table_bytes / held.kafka_log_bytes,
        files=own[0].files,
    )


def judge(report: Report, turns: dict[str, list[Turn]], held: Backlog) -> None:
    wall = {name: statistics.median(each.wall_s for each in own) for name, own in turns.items()}
    cpu = {name: statistics.median(each.cpu_s for each in own) for name, own in turns.items()}
    report.aims += [
        Aim.at_least(
            "MB/s of the faster peer's",
            3,
            min(wall[name] for name in PEERS) / wall[OURS],
            "times",
        ),
        Aim.at_least(
            "CPU of the thriftier peer to ours", 3, min(cpu[n] for n in PEERS) / cpu[OURS], "times"
        ),
        Aim.at_most(
            "table to Kafka's lz4 log",
            0.5,
            turns[OURS][0].table_bytes / held.kafka_log_bytes,
            "times",
        ),
    ]


async def measure(report: Report, options: Options) -> None:
    total, rounds = _QUICK if options.quick else _DEFAULT
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        node = stack.enter_context(kafka(folder / "kafka"))
        held = backlog(node, folder / "kafka", folder / OURS, total, rounds)
        report.notes.append(
            f"{held.records} events, {held.bytes / held.records:.0f} B each; Kafka's lz4 log has "
            f"{held.kafka_log_bytes / held.bytes:.2f} of their bytes"
        )
        started = {
            name: stack.enter_context(drainer(name, folder / name, node.bootstrap))
            for name in (OURS, ICEBERG, DELTA)
        }
        for each in started.values():
            each.drain(WARM_UP)
        judge(report, await compare(report, started, node, held, rounds), held)


if __name__ == "__main__":
    run("compaction", measure)
