"""Many partitions and many topics at 1 MB/s in all: how long commits take, how many files come.

`lakestream up` serves and compacts; the events go to all partitions in turn. Commits and files are
those that the job's own metrics count: a commit is intent, append to the table and ends moved. All
of a round must be committed when it ends. Files left are those that the tables still consist of
at the end, after what the upkeep of `up` has merged meanwhile: four small files in a row already,
because by the default of 16 a round of six minutes at one commit a minute would see no merge.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from lakestream_spark.table.iceberg import StreamCatalog
from tests.benchmarks.events import client, create, result
from tests.benchmarks.harness import MB, Options, Report, run
from tests.benchmarks.servers import scratch
from tests.support.embedded import catalog_spec
from tests.support.ingress_process import Ingress, Listening, ingress

RATE: Final = 1_000_000
MERGED_FILES: Final = 4
_PATIENCE_S: Final = 600.0
_COMMIT: Final = "lakestream_table_commit_seconds"
_HOUR_S: Final = 3600


class Spread(NamedTuple):
    """How the stream is spread, and for how long it flows."""

    name: str
    topics: int
    partitions: int
    lag_ms: int
    seconds: float
    folder: Path


class Counts(NamedTuple):
    """What a job has done so far."""

    commits: float
    commit_s: float
    files: float
    rows: float

    def since(self, before: "Counts") -> "Counts":
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


def counts(up: Ingress) -> Counts:
    told = re.search(r"compaction starts.*admin=(http://\S+)", "".join(up.log))
    page = "" if told is None else Listening(0, "", told[1]).get("/metrics")[1]

    def total(name: str) -> float:
        found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE)
        return sum(map(float, found))

    return Counts(
        total(f"{_COMMIT}_count"),
        total(f"{_COMMIT}_sum"),
        total("lakestream_table_files_total"),
        total("lakestream_table_rows_total"),
    )


def files_left(folder: Path, topics: Sequence[str]) -> int:
    found = 0
    with closing(StreamCatalog.open(catalog_spec(folder))) as tables:
        for topic in topics:
            snapshot = tables._catalog.load_table(("streams", topic)).current_snapshot()
            assert snapshot is not None
            assert snapshot.summary is not None
            found += int(snapshot.summary["total-data-files"] or 0)
    return found


async def committed(up: Ingress, before: Counts, rows: int) -> Counts:
    """Wait until the tables have all rows."""
    deadline = time.monotonic() + _PATIENCE_S
    while (found := (await asyncio.to_thread(counts, up)).since(before)).rows < rows:
        assert time.monotonic() < deadline, f"{found.rows} of {rows} rows are in the tables"
        await asyncio.sleep(0.1)
    return found


async def measure_one(report: Report, up: Ingress, at: Listening, spread: Spread) -> None:
    topics = [f"{spread.name}{number}" for number in range(spread.topics)]
    config = {"lakestream_table_lag_ms": str(spread.lag_ms)}
    await asyncio.to_thread(create, at.kafka, topics, spread.partitions, **config)
    before, began = counts(up), time.monotonic()
    spec = {"role": "flow", "bootstrap": at.kafka, "partitions": spread.partitions}
    flow = {"topics": topics, "bytes_per_s": RATE, "seconds": spread.seconds}
    sender = client(**spec, **flow)
    sent = await asyncio.to_thread(result, sender)
    ended = time.monotonic()
    found = await committed(up, before, sent["records"])
    all_s, left = time.monotonic() - began, files_left(spread.folder, topics)
    report.add(
        topics=spread.topics,
        partitions=spread.partitions * spread.topics,
        lag_target_s=spread.lag_ms / 1000,
        mb_per_s=sent["bytes"] / MB / sent["seconds"],
        commits=found.commits,
        mean_commit_ms=1000 * found.commit_s / found.commits,
        files=found.files,
        files_per_hour=found.files / all_s * _HOUR_S,
        files_left=left,
        files_left_per_hour=left / all_s * _HOUR_S,
        all_committed_after_s=began + all_s - ended,
    )


async def measure(report: Report, options: Options) -> None:
    partitions, topics = (20, 5) if options.quick else (1_000, 200)
    lag_ms, seconds = (1_000, 3.0) if options.quick else (60_000, 360.0)
    before = Report(benchmark="compaction_wide, while Spark starts")
    merging = ("--set", f"maintain.merge_min_files={MERGED_FILES}")
    with scratch() as folder, ingress(folder, *merging, name="up") as up:
        (listening,) = await asyncio.to_thread(up.ready)
        await measure_one(before, up, listening, Spread("before", 1, 4, 1_000, 1.0, folder))
        for spread in (
            Spread("wide", 1, partitions, lag_ms, seconds, folder),
            Spread("many", topics, 1, lag_ms, seconds, folder),
        ):
            await measure_one(report, up, listening, spread)
        await asyncio.to_thread(up.stop)


if __name__ == "__main__":
    run("compaction_wide", measure)
