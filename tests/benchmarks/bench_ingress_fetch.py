"""Fetch at the tail, beside Apache Kafka: MB/s and the broker's CPU-seconds per GB.

What was just produced is read several times over by librdkafka consumers, each a process of its
own: from memory here, from the page cache by sendfile in Kafka. Bytes are those of the values
before compression. Nothing is synced by a fetch; rows name how the records were written.
"""

import statistics
from itertools import product
from typing import Any, Final, NamedTuple

from tests.benchmarks.brokers import (
    KAFKA,
    KAFKA_SYNC,
    LATENCY,
    PARTITIONS,
    WARM_UP,
    Contender,
    contenders,
    run_clients,
)
from tests.benchmarks.harness import GB, MB, Aim, Options, Report, in_turns, run

NAMES: Final = (LATENCY, KAFKA, KAFKA_SYNC)
_TAIL_BYTES: Final = 100_000_000
"""Less than the memory that a broker of ours keeps of the WAL by default."""
_WARM_UPS: Final = 3
_SMALL: Final = 100


class Case(NamedTuple):
    record_bytes: int
    codec: str = "none"
    consumers: int = 1


MAIN: Final = Case(1_000)
CASES: Final = (MAIN, Case(1_000, consumers=3), Case(1_000, codec="lz4"), Case(100), Case(10_000))
ALL_CASES: Final = tuple(
    Case(*each) for each in product((100, 1_000, 10_000), ("none", "lz4", "zstd"), (1, 3))
)


class Read(NamedTuple):
    mb_per_s: float
    cpu_s_per_gb: float


def read(contender: Contender, case: Case, tail: int, times: int) -> Read:
    """Produce a tail, then what it takes the broker to serve it to all consumers."""
    with contender.topic() as topic:
        spec: dict[str, Any] = {
            "bootstrap": contender.bootstrap,
            "topic": topic,
            "warm_up": WARM_UP,
            "partitions": PARTITIONS,
            "size": case.record_bytes,
            "codec": case.codec,
            "count": tail // case.record_bytes,
            "times": times,
        }
        run_clients([spec | {"role": "produce"}])
        before = contender.cpu_s()
        results = run_clients([spec | {"role": "consume"}] * case.consumers)
        cpu_s = contender.cpu_s() - before
    size = sum(each["bytes"] for each in results)
    return Read(sum(each["bytes"] / each["seconds"] for each in results) / MB, cpu_s / size * GB)


async def compare(
    report: Report, brokers: dict[str, Contender], case: Case, tail: int, rounds: int
) -> None:
    times = max(1, 3 // case.consumers)
    if case.record_bytes <= _SMALL:
        # Small records keep the client busy, not the broker: fewer bytes say the same.
        tail, times = tail // 4, 1

    def turn(contender: Contender) -> Any:
        async def take(_: int) -> Read:
            return read(contender, case, tail, times)

        return take

    reads = await in_turns(rounds, {name: turn(each) for name, each in brokers.items()})
    rates = {name: [each.mb_per_s for each in own] for name, own in reads.items()}
    cpus = {name: [each.cpu_s_per_gb for each in own] for name, own in reads.items()}
    rate = {name: statistics.median(own) for name, own in rates.items()}
    cpu = {name: statistics.median(own) for name, own in cpus.items()}
    for name in reads:
        report.add(
            record_bytes=case.record_bytes,
            codec=case.codec,
            consumers=case.consumers,
            broker=name,
            written_with=brokers[name].durability,
            mb_per_s=rate[name],
            of_kafka=rate[name] / rate[KAFKA],
            mb_per_s_spread=f"{min(rates[name]):.0f}–{max(rates[name]):.0f}",
            cpu_s_per_gb=cpu[name],
            cpu_of_kafka=cpu[name] / cpu[KAFKA],
            cpu_spread=f"{min(cpus[name]):.2f}–{max(cpus[name]):.2f}",
        )
    if (case.record_bytes, case.codec) == (MAIN.record_bytes, MAIN.codec):
        label = f"tail fetch 1 KB, {case.consumers} consumer(s)"
        ours = LATENCY
        report.aims += [
            Aim.at_most(f"{label}: CPU of Kafka's", 1.0, cpu[ours] / cpu[KAFKA], "times"),
            Aim.at_least(f"{label}: MB/s of Kafka's", 0.7, rate[ours] / rate[KAFKA], "times"),
            Aim.at_least(
                f"{label}: MB/s of Kafka's with flush.messages=1",
                1.0,
                rate[ours] / rate[KAFKA_SYNC],
                "times",
            ),
        ]


async def measure(report: Report, options: Options) -> None:
    tail, rounds = (4_000_000, 1) if options.quick else (_TAIL_BYTES, 3)
    cases = CASES[:1] if options.quick else ALL_CASES if options.full else CASES
    with contenders(*NAMES) as brokers:
        for contender in brokers.values():
            for _ in range(1 if options.quick else _WARM_UPS):  # The JVM compiles what it runs.
                read(contender, MAIN, tail, 3)
        for case in cases:
            await compare(report, brokers, case, tail, rounds)


if __name__ == "__main__":
    run("ingress_fetch", measure)
