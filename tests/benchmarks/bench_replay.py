"""Replay from Parquet to one client, beside Apache Kafka reading the same records from its log.

The same JSON records of 1 KB go to both with lz4. Ours are moved into the table, so that no WAL has
them any more; then librdkafka reads everything from the first offset. Cold means that the files are
not in the page cache and, here, that broker and reader are new processes, which have started and
read nothing yet when the client is started; Kafka's keeps running. Warm is the same read again,
much of it from the batches that are kept. Bytes are those of the values before compression, CPU
time that of the broker and its reader. At last records at the tail are timed, without and with a
client that replays all the time.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from lakestream_spark.spark.due import CompactPolicy
from tests.benchmarks.brokers import (
    KAFKA_JVM,
    KAFKA_SETTINGS,
    WARM_UP,
    Contender,
    run_clients,
)
from tests.benchmarks.harness import GB, MB, Aim, Options, Report, in_turns, percentile, run
from tests.benchmarks.plain import forget_pages
from tests.benchmarks.process_tree import cpu_s
from tests.benchmarks.servers import scratch
from tests.support.ingress_process import ingress
from tests.support.kafka_oracle import KafkaNode
from tests.support.ports import free_port
from tests.support.sparkless import SparklessCompaction

OURS: Final = "from Parquet"
KAFKA: Final = "Kafka"
RECORD_BYTES: Final = 1_000
TOTAL_BYTES: Final = 400_000_000
QUICK_BYTES: Final = 4_000_000
PARTITIONS: Final = (1, 6)
IDLE_SHARE: Final = 0.05
TAIL_RATE: Final = 500
TAIL_SECONDS: Final = 20.0
POLICY: Final = CompactPolicy(poll_s=0.05, session_s=5.0)


class Read(NamedTuple):
    mb_per_s: float
    cpu_s_per_gb: float


@dataclass(slots=True, kw_only=True)
class Site:
    """A broker, the folder of its files, and how it is started anew, if that is to be done."""

    contender: Contender
    folder: Path
    restarted: Callable[[], psutil.Process] | None = None

    def spec(self, topic: str, partitions: int, total: int) -> dict[str, Any]:
        return {
            "bootstrap": self.contender.bootstrap,
            "topic": topic,
            "warm_up": WARM_UP,
            "partitions": partitions,
            "size": RECORD_BYTES,
            "codec": "lz4",
            "json": True,
            "count": total // RECORD_BYTES,
            "times": 1,
        }

    def forget(self) -> None:
        """Nothing is in memory afterwards: no pages and, here, nothing of a process."""
        os.sync()
        forget_pages(self.folder, "*.parquet")
        forget_pages(self.folder, "*.log")
        if self.restarted is not None:
            self.contender = replace(self.contender, process=self.restarted())

    def read(self, spec: dict[str, Any]) -> Read:
        before = cpu_s(self.contender.process)
        (result,) = run_clients([spec | {"role": "consume"}])
        used = cpu_s(self.contender.process) - before
        return Read(result["bytes"] / result["seconds"] / MB, used / result["bytes"] * GB)


def idle(process: psutil.Process) -> psutil.Process:
    """The process, when it and its children have started and do hardly anything any more."""
    share = 1.0
    while share > IDLE_SHARE:
        before = cpu_s(process)
        time.sleep(1.0)
        share = cpu_s(process) - before
    return process


@contextmanager
def our_site() -> Iterator[Site]:
    with scratch() as folder, ExitStack() as running:
        # The same one each time: clients know the address.
        port = ("--port", str(free_port()))

        def restarted() -> psutil.Process:
            running.close()
            started = running.enter_context(ingress(folder, *port))
            started.ready()
            running.callback(started.stop)
            return idle(psutil.Process(started.process.pid))

        contender = Contender(
            name=OURS,
            durability="",
            process=restarted(),
            bootstrap=f"127.0.0.1:{port[1]}",
            topic_config={"lakestream.profile": "latency"},
        )
        with contender.topic(name=WARM_UP):
            yield Site(contender=contender, folder=folder, restarted=restarted)


@contextmanager
def kafka_site() -> Iterator[Site]:
    with scratch() as folder:
        node = KafkaNode(folder, KAFKA_SETTINGS, KAFKA_JVM)
        try:
            node.start()
            contender = Contender(
                name=KAFKA,
                durability="",
                bootstrap=node.bootstrap,
                process=psutil.Process(node.pid),
            )
            with contender.topic(name=WARM_UP):
                yield Site(contender=contender, folder=folder)
        finally:
            node.kill()


def compact(folder: Path) -> None:
    """Everything into the tables, by the real tasks and commits, without a JVM."""
    compaction = SparklessCompaction(folder, policy=POLICY)
    compaction.run_until_drained(600.0)
    compaction.close()


async def compare(
    report: Report, sites: dict[str, Site], partitions: int, total: int, rounds: int
) -> dict[str, float]:
    """Read the same records from both; how many of Kafka's MB/s ours are, by heat."""
    topic = f"replay-{partitions}"
    shares: dict[str, float] = {}
    with (
        sites[OURS].contender.topic(partitions, topic),
        sites[KAFKA].contender.topic(partitions, topic),
    ):
        for site in sites.values():
            run_clients([site.spec(topic, partitions, total) | {"role": "produce"}])
        await asyncio.to_thread(compact, sites[OURS].folder)
        for heat in ("cold", "warm"):

            def turn(site: Site, heat: str = heat) -> Any:
                async def take(_: int) -> Read:
                    if heat == "cold":
                        site.forget()
                    return site.read(site.spec(topic, partitions, total))

                return take

            reads = await in_turns(rounds, {name: turn(site) for name, site in sites.items()})
            rate = {n: statistics.median(r.mb_per_s for r in own) for n, own in reads.items()}
            for name, own in reads.items():
                report.add(
                    what=f"replay {heat}",
                    broker=name,
                    partitions=partitions,
                    mb=round(total / MB),
                    mb_per_s=rate[name],
                    of_kafka=rate[name] / rate[KAFKA],
                    cpu_s_per_gb=statistics.median(r.cpu_s_per_gb for r in own),
                    p99_ms=0.0,
                )
            shares[heat] = rate[OURS] / rate[KAFKA]
    return shares


def tail_p99_ms(site: Site, replayed: dict[str, Any] | None, seconds: float) -> tuple[float, float]:
    """Of records at the tail of a topic; and MB/s of who replays another one meanwhile."""
    with site.contender.topic(1) as topic:
        spec = site.spec(topic, 1, 0) | {"rate": TAIL_RATE, "seconds": seconds, "codec": "none"}
        spec |= {"producer": {"linger.ms": 0}}
        specs = [spec | {"role": "follow"}, spec | {"role": "pace"}]
        if replayed is not None:
            specs.append(replayed | {"role": "replay", "seconds": seconds})
        results = run_clients(specs)
    rate = results[2]["bytes"] / results[2]["seconds"] / MB if replayed else 0.0
    return percentile(results[0]["ms"], 0.99), rate


async def beside_a_tail(
    report: Report, site: Site, total: int, rounds: int, seconds: float
) -> float:
    """How many times as long the tail takes while somebody replays."""
    figures: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with site.contender.topic(6, "replayed") as topic:
        spec = site.spec(topic, 6, total)
        run_clients([spec | {"role": "produce"}])
        await asyncio.to_thread(compact, site.folder)
        site.read(spec)  # The reader runs from now on.
        for _ in range(rounds):
            for busy in (False, True):
                figures[busy].append(tail_p99_ms(site, spec if busy else None, seconds))
    medians = {busy: statistics.median(p for p, _ in own) for busy, own in figures.items()}
    for busy, own in figures.items():
        report.add(
            what="tail beside a replay" if busy else "tail alone",
            broker=OURS,
            partitions=6,
            mb=round(total / MB),
            mb_per_s=statistics.median(rate for _, rate in own),
            of_kafka=0.0,
            cpu_s_per_gb=0.0,
            p99_ms=medians[busy],
        )
    return medians[True] / medians[False]


async def measure(report: Report, options: Options) -> None:
    total, rounds = (QUICK_BYTES, 1) if options.quick else (TOTAL_BYTES, 3)
    seconds = 1.0 if options.quick else TAIL_SECONDS
    with our_site() as ours, kafka_site() as kafka:
        sites = {OURS: ours, KAFKA: kafka}
        for partitions in PARTITIONS[:1] if options.quick else PARTITIONS:
            shares = await compare(report, sites, partitions, total, rounds)
            report.aims += [
                Aim.at_least(
                    f"replay {heat}, {partitions} partition(s): MB/s of Kafka's",
                    0.5,
                    share,
                    "times",
                )
                for heat, share in shares.items()
            ]
    with our_site() as ours:
        ratio = await beside_a_tail(report, ours, total, 1 if options.quick else 2, seconds)
    name = "tail p99 while a client replays, to without"
    report.aims.append(Aim.at_most(name, 2.0, ratio, "times"))


if __name__ == "__main__":
    run("replay", measure)
