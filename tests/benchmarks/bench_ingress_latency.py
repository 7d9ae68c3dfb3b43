"""How long an acknowledgement takes at fixed rates, and how long a record takes to its consumer.

A paced librdkafka producer and a consumer that waits at the end of the log, each a process of its
own, both brokers in turn. A record's clock starts when it was due to be sent, so falling behind is
counted. The profile `cost` is asked by bare connections with exactly five requests in flight, since
a client that queues behind its own window would measure its queue.
"""

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
from tests.benchmarks.harness import Aim, Options, Report, in_turns, percentile, progress, run
from tests.benchmarks.pipelined import acks_ms

RECORD_BYTES: Final = 1_000
NAMES: Final = (LATENCY, KAFKA, KAFKA_SYNC)
RATES: Final = (1_000, 5_000)
ALL_RATES: Final = (100, 1_000, 5_000, 20_000)
_AIM_RATE: Final = 5_000
_AIM_MS: Final = 10.0
_COST_FLUSH_MS: Final = 250
_COST_SLACK_MS: Final = 60


class Latencies(NamedTuple):
    """Milliseconds, one per record."""

    acks: list[float]
    end_to_end: list[float]


def paced(contender: Contender, rate: int, seconds: float) -> Latencies:
    with contender.topic() as topic:
        spec: dict[str, Any] = {
            "bootstrap": contender.bootstrap,
            "topic": topic,
            "warm_up": WARM_UP,
            "partitions": PARTITIONS,
            "size": RECORD_BYTES,
            "rate": rate,
            "seconds": seconds,
            "producer": {"linger.ms": 0},
        }
        follow, pace = run_clients([spec | {"role": "follow"}, spec | {"role": "pace"}])
    return Latencies(pace["ms"], follow["ms"])


async def at_rate(
    report: Report, brokers: dict[str, Contender], rate: int, seconds: float, rounds: int
) -> None:
    def turn(contender: Contender) -> Any:
        async def take(_: int) -> Latencies:
            return paced(contender, rate, seconds)

        return take

    found = await in_turns(rounds, {name: turn(each) for name, each in brokers.items()})
    for name, own in found.items():
        p99 = _across(own, 0.99)
        report.add(
            client="librdkafka",
            load=f"{rate:,} msg/s",
            broker=name,
            durability=brokers[name].durability,
            ack_p50_ms=_across(own, 0.50),
            ack_p99_ms=p99,
            p99_spread=_spread([percentile(each.acks, 0.99) for each in own]),
            end_to_end_p50_ms=percentile([ms for each in own for ms in each.end_to_end], 0.50),
            end_to_end_p99_ms=percentile([ms for each in own for ms in each.end_to_end], 0.99),
        )
        if name == LATENCY and rate == _AIM_RATE:
            aim = f"latency profile at {rate:,} msg/s: ack p99"
            report.aims.append(Aim.at_most(aim, _AIM_MS, p99, "ms"))


async def in_flight(
    report: Report, brokers: dict[str, Contender], seconds: float, rounds: int
) -> None:
    """Five requests in flight on one bare connection."""

    def turn(contender: Contender) -> Any:
        async def take(_: int) -> Latencies:
            with contender.topic() as topic:
                return Latencies(await acks_ms(contender.bootstrap, topic, 5, seconds), [])

        return take

    found = await in_turns(rounds, {name: turn(each) for name, each in brokers.items()})
    for name, own in found.items():
        p99 = _across(own, 0.99)
        report.add(
            client="bare connection",
            load="5 requests in flight",
            broker=name,
            durability=brokers[name].durability,
            ack_p50_ms=_across(own, 0.50),
            ack_p99_ms=p99,
            p99_spread=_spread([percentile(each.acks, 0.99) for each in own]),
            end_to_end_p50_ms="",
            end_to_end_p99_ms="",
        )
        if name == COST:
            limit = float(_COST_FLUSH_MS + _COST_SLACK_MS)
            report.aims.append(Aim.at_most("cost profile, 5 in flight: ack p99", limit, p99, "ms"))


def _across(own: list[Latencies], share: float) -> float:
    """The median over the rounds of each round's percentile."""
    return percentile([percentile(each.acks, share) for each in own], 0.50)


def _spread(figures: list[float]) -> str:
    return f"{min(figures):.1f}–{max(figures):.1f}"


async def measure(report: Report, options: Options) -> None:
    seconds, rounds = (0.5, 1) if options.quick else (5.0, 3)
    rates = RATES[:1] if options.quick else ALL_RATES if options.full else RATES
    with contenders(*NAMES, COST) as brokers:
        cost = {COST: brokers.pop(COST)}
        for contender in brokers.values():
            paced(contender, 5_000, seconds)
            progress(f"{contender.name} is warm")
        for rate in rates:
            await at_rate(report, brokers, rate, seconds, rounds)
        await in_flight(report, cost | brokers, seconds, rounds)


if __name__ == "__main__":
    run("ingress_latency", measure)
