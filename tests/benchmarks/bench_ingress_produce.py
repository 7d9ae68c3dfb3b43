"""Produce through the Kafka protocol, beside Apache Kafka: MB/s and the broker's CPU-s per GB.

The same librdkafka producers with the same settings (acks=all, five requests in flight) send to
each broker in turn. Bytes are those of the values before compression. Rows name what an
acknowledgement means: ours is on the disk, Kafka's default is in the page cache.
"""

import statistics
from itertools import product
from typing import Any, Final, NamedTuple

from tests.benchmarks.brokers import (
    COST,
    KAFKA,
    KAFKA_SYNC,
    LATENCY,
    PARTITIONS,
    WARM_UP,
    Contender,
    contenders,
    run_clients,
)
from tests.benchmarks.harness import Aim, Cost, Options, Report, in_turns, run

NAMES: Final = (LATENCY, KAFKA, KAFKA_SYNC)
_WARM_UPS: Final = 5
_SMALL: Final = 100


class Case(NamedTuple):
    record_bytes: int
    codec: str = "none"
    idempotent: bool = True
    producers: int = 1


MAIN: Final = Case(1_000)
CASES: Final = (
    MAIN,
    Case(1_000, idempotent=False),
    Case(1_000, producers=3),
    Case(1_000, codec="lz4"),
    Case(1_000, codec="zstd"),
    Case(100),
    Case(10_000),
)
ALL_CASES: Final = tuple(
    Case(*each)
    for each in product((100, 1_000, 10_000), ("none", "lz4", "zstd"), (True, False), (1, 3))
)


def sent(contender: Contender, case: Case, total: int) -> Cost:
    """What it takes the broker to take so many bytes from all producers together."""
    with contender.topic() as topic:
        spec: dict[str, Any] = {
            "role": "produce",
            "bootstrap": contender.bootstrap,
            "topic": topic,
            "warm_up": WARM_UP,
            "partitions": PARTITIONS,
            "size": case.record_bytes,
            "codec": case.codec,
            "idempotent": case.idempotent,
            "count": total // case.producers // case.record_bytes,
        }
        before = contender.cpu_s()
        results = run_clients([spec] * case.producers)
        cpu_s = contender.cpu_s() - before
    began = min(each["began"] for each in results)
    return Cost(max(each["ended"] for each in results) - began, cpu_s)


async def compare(
    report: Report, brokers: dict[str, Contender], case: Case, total: int, rounds: int
) -> dict[str, list[Cost]]:
    # Small records keep the client busy, not the broker: fewer bytes say the same.
    size = total // 4 if case.record_bytes <= _SMALL else total

    def turn(contender: Contender) -> Any:
        async def take(_: int) -> Cost:
            return sent(contender, case, size)

        return take

    costs = await in_turns(rounds, {name: turn(each) for name, each in brokers.items()})
    kafka = statistics.median(cost.wall_s for cost in costs[KAFKA]) if KAFKA in costs else None
    for name, own in costs.items():
        rates = sorted(cost.mb_per_s(size) for cost in own)
        cpu = sorted(cost.cpu_s_per_gb(size) for cost in own)
        report.add(
            record_bytes=case.record_bytes,
            codec=case.codec,
            idempotent="on" if case.idempotent else "off",
            producers=case.producers,
            broker=name,
            durability=brokers[name].durability,
            mb_per_s=statistics.median(rates),
            of_kafka=kafka / statistics.median(cost.wall_s for cost in own) if kafka else "",
            mb_per_s_spread=f"{rates[0]:.0f}–{rates[-1]:.0f}",
            cpu_s_per_gb=statistics.median(cpu),
            cpu_spread=f"{cpu[0]:.1f}–{cpu[-1]:.1f}",
        )
    return costs


def judge(report: Report, case: Case, costs: dict[str, list[Cost]]) -> None:
    """The aims at 1 KB without compression."""
    wall = {name: statistics.median(c.wall_s for c in own) for name, own in costs.items()}
    cpu = {name: statistics.median(c.cpu_s for c in own) for name, own in costs.items()}
    label = (
        f"produce 1 KB, idempotence {'on' if case.idempotent else 'off'}, "
        f"{case.producers} producer(s)"
    )
    report.aims += [
        Aim.at_most(f"{label}: CPU of Kafka's", 1.0, cpu[LATENCY] / cpu[KAFKA], "times"),
        Aim.at_least(f"{label}: MB/s of Kafka's", 0.7, wall[KAFKA] / wall[LATENCY], "times"),
        Aim.at_least(
            f"{label}: MB/s of Kafka's with flush.messages=1",
            1.0,
            wall[KAFKA_SYNC] / wall[LATENCY],
            "times",
        ),
    ]


async def measure(report: Report, options: Options) -> None:
    total, rounds = (4_000_000, 1) if options.quick else (100_000_000, 3)
    cases = CASES[:1] if options.quick else ALL_CASES if options.full else CASES
    with contenders(*NAMES, COST) as brokers:
        cost = {COST: brokers.pop(COST)}
        for contender in brokers.values():
            for _ in range(1 if options.quick else _WARM_UPS):  # The JVM compiles what it runs.
                sent(contender, MAIN, total)
        # Five requests in flight and 250 ms: the window bounds it, so fewer bytes say the same.
        await compare(report, cost, MAIN, total // 8, rounds)
        await compare(report, cost, MAIN._replace(producers=3), total // 8, rounds)
        for case in cases:
            costs = await compare(report, brokers, case, total, rounds)
            if case.record_bytes == MAIN.record_bytes and case.codec == MAIN.codec:
                judge(report, case, costs)


if __name__ == "__main__":
    run("ingress_produce", measure)
