"""From acknowledgement to row: how old a record is when it is in the table, while 20 MB/s flow.

`lakestream up` serves and compacts; a client sends a batch of JSON events (lz4) to one topic every
10 ms, and of each the last offset and the time of its acknowledgement are kept. A poller watches
the table ends in the metadata store, which move after the table has the rows: the worse side is
measured. The first seconds are not counted: the JVM compiles what it runs.
"""

import asyncio
import bisect
import time
from collections import defaultdict
from typing import Final, NamedTuple

from lakestream_spark.metadata import Metadata
from tests.benchmarks.events import client, create, result
from tests.benchmarks.harness import MB, Aim, Options, Report, percentile, run
from tests.benchmarks.servers import opened, scratch
from tests.support.embedded import metadata_url
from tests.support.ingress_process import ingress

PARTITIONS: Final = 4
_POLL_S: Final = 0.02
_PATIENCE_S: Final = 300.0
AIMED_LAG_MS: Final = 2_000
AIM_S: Final = 5.0


class Load(NamedTuple):
    """What flows, for how long, and how much of the beginning does not count."""

    bytes_per_s: int
    seconds: float
    settle_s: float


class Ends:
    """When the table of a topic had how much of each partition."""

    def __init__(self) -> None:
        self._times: dict[int, list[float]] = defaultdict(list)
        self._ends: dict[int, list[int]] = defaultdict(list)

    def seen(self, partition: int, end: int) -> None:
        if not self._ends[partition] or self._ends[partition][-1] < end:
            self._ends[partition].append(end)
            self._times[partition].append(time.monotonic())

    def reach(self, wanted: dict[int, int]) -> bool:
        return all((self._ends[p] or [0])[-1] > offset for p, offset in wanted.items())

    def visible_at(self, partition: int, offset: int) -> float:
        return self._times[partition][bisect.bisect_right(self._ends[partition], offset)]

    @property
    def commits(self) -> int:
        return max(map(len, self._ends.values()))


async def watch(metadata: Metadata, topic: str, ends: Ends) -> None:
    """Until it is cancelled."""
    found = await metadata.topics.get(topic)
    while True:
        for partition, each in (await metadata.tables.ends(found.id)).items():
            if each.table_end:
                ends.seen(partition, each.table_end)
        await asyncio.sleep(_POLL_S)


class Found(NamedTuple):
    """Seconds from acknowledgement to row of every sample, and how they came about."""

    lags_s: list[float]
    commits: int
    mb_per_s: float


async def lags(broker: str, url: str, lag_ms: int, load: Load) -> Found:
    """Of a new topic with this lag target."""
    topic = f"lag-{lag_ms}"
    config = {"lakestream_table_lag_ms": str(lag_ms)}
    await asyncio.to_thread(create, broker, [topic], PARTITIONS, **config)
    ends = Ends()
    async with opened(url) as metadata:
        watcher = asyncio.create_task(watch(metadata, topic, ends))
        spec = {"role": "flow", "bootstrap": broker, "topics": [topic], "partitions": PARTITIONS}
        sender = client(**spec, bytes_per_s=load.bytes_per_s, seconds=load.seconds)
        sent = await asyncio.to_thread(result, sender)
        acks = sorted(sent["acks"])
        wanted = {partition: offset for partition, offset, _ in acks}
        deadline = time.monotonic() + _PATIENCE_S
        while not ends.reach(wanted):
            assert not watcher.done(), watcher.exception()
            assert time.monotonic() < deadline, "the table does not follow"
            await asyncio.sleep(0.1)
        watcher.cancel()
    first = min(acked for _, _, acked in acks)
    found = [
        ends.visible_at(partition, offset) - acked
        for partition, offset, acked in acks
        if acked >= first + load.settle_s
    ]
    return Found(found, ends.commits, sent["bytes"] / sent["seconds"] / MB)


def add(report: Report, lag_ms: int, load: Load, found: Found) -> None:
    p99_s = percentile(found.lags_s, 0.99)
    report.add(
        lag_target_s=lag_ms / 1000,
        mb_per_s=found.mb_per_s,
        seconds=load.seconds,
        samples=len(found.lags_s),
        commits=found.commits,
        p50_s=percentile(found.lags_s, 0.50),
        p99_s=p99_s,
        worst_s=max(found.lags_s),
    )
    if lag_ms == AIMED_LAG_MS:
        report.aims.append(Aim.at_most("ack → row p99, target 2 s", AIM_S, p99_s, "s"))


async def measure(report: Report, options: Options) -> None:
    rate = 1_000_000 if options.quick else 20_000_000
    load = Load(rate, 6, 0) if options.quick else Load(rate, 40, 10)
    loads = {AIMED_LAG_MS: load, 5_000: load}
    if not options.quick:
        loads[60_000] = Load(rate, 240, 60)
    with scratch() as folder, ingress(folder, name="up") as up:
        (listening,) = await asyncio.to_thread(up.ready)
        url = metadata_url(folder)
        await lags(listening.kafka, url, 1_000, Load(rate, 3, 0))  # Spark starts meanwhile.
        for lag_ms, each in loads.items():
            add(report, lag_ms, each, await lags(listening.kafka, url, lag_ms, each))
        await asyncio.to_thread(up.stop)


if __name__ == "__main__":
    run("compaction_lag", measure)
