"""What `lakestream up` uses while nobody sends anything: memory and CPU time of all its processes.

Three states of one platform: just started, before any record; after some topics were sent, taken
into their tables and replayed, so that Spark and the reader of tables run; and the same while a
status page is open, which asks every two seconds. Memory is the resident set, and the proportional
set: pages that processes share are in the first as often as they are shared, in the second once.
"""

import asyncio
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import psutil

from tests.benchmarks.harness import MB, Aim, Options, Report, run
from tests.benchmarks.process_tree import cpu_s, tree
from tests.benchmarks.servers import scratch
from tests.support.ingress_process import Listening, ingress
from tests.support.kafka import Sent, consume, produce

AIM_MB: Final = 1_500.0
AIM_PERCENT: Final = 5.0
RECORDS: Final = 1_000
_POLL_S: Final = 2.0
_WITHIN_S: Final = 600.0


class Period(NamedTuple):
    """How long a state is left alone before it is measured, and for how long it is."""

    settle_s: float
    seconds: float
    topics: int


class Use(NamedTuple):
    """Of all processes together."""

    processes: int
    resident: int
    proportional: int


def memory(process: psutil.Process) -> Use:
    found = []
    for each in tree(process):
        with suppress(psutil.NoSuchProcess):
            found.append(each.memory_full_info())
    return Use(len(found), sum(own.rss for own in found), sum(own.pss for own in found))


async def _look(url: str, over: asyncio.Event) -> None:
    """As an open page does."""
    async with aiohttp.ClientSession() as session:
        while not over.is_set():
            async with session.get(f"{url}/api/status") as response:
                response.raise_for_status()
                await response.read()
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _POLL_S)


async def observe(report: Report, state: str, process: psutil.Process, period: Period) -> None:
    await asyncio.sleep(period.settle_s)
    began, used = time.monotonic(), cpu_s(process)
    await asyncio.sleep(period.seconds)
    seconds, spent = time.monotonic() - began, cpu_s(process) - used
    use = await asyncio.to_thread(memory, process)
    percent = 100 * spent / seconds
    report.add(
        state=state,
        seconds=seconds,
        processes=use.processes,
        resident_mb=use.resident / MB,
        proportional_mb=use.proportional / MB,
        cpu_percent=percent,
    )
    report.aims += [
        Aim.at_most(f"idle memory, {state}", AIM_MB, use.proportional / MB, "MB"),
        Aim.at_most(f"idle CPU of one core, {state}", AIM_PERCENT, percent, "%"),
    ]


def work(broker: Listening, folder: Path, topics: int) -> None:
    """Records go to the WAL, to tables, and back to a consumer."""
    sent = [Sent(b"%d" % number, b"v" * 100) for number in range(RECORDS)]
    for number in range(topics):
        produce(broker.kafka, f"topic-{number}", sent)
    for number in range(topics):
        command = [sys.executable, "-m", "lakestream_spark", "flush", f"topic-{number}"]
        subprocess.run(
            [*command, "--data", str(folder), "--timeout", str(int(_WITHIN_S))],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    consume(broker.kafka, "topic-0", offset=0, count=RECORDS, within_s=_WITHIN_S)


async def measure(report: Report, options: Options) -> None:
    period = Period(1.0, 2.0, 1) if options.quick else Period(45.0, 60.0, 20)
    with scratch() as folder, ingress(folder, name="up") as platform:
        process = psutil.Process(platform.process.pid)
        (broker,) = await asyncio.to_thread(platform.ready)
        await observe(report, "just started", process, period)
        await asyncio.to_thread(work, broker, folder, period.topics)
        await observe(report, "after work", process, period)
        over = asyncio.Event()
        looking = asyncio.create_task(_look(broker.admin, over))
        await observe(report, "with an open page", process, period)
        over.set()
        await looking
        await asyncio.to_thread(platform.stop)


if __name__ == "__main__":
    run("idle", measure)
