"""Table growth: what one append, one mirror and one round of expiry cost as a table grows.

The files are entries only: neither an append nor a mirror opens a data file. Expiry runs as upkeep
would, every 50 commits; without it the number of snapshots alone makes a commit slower.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final
from uuid import uuid4

from lakestream_spark.table import delta_log
from lakestream_spark.table.append import TableAppend, TableState
from lakestream_spark.table.delta import MirrorResult, mirror
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.upkeep.policy import SnapshotPolicy
from lakestream_spark.table.upkeep.snapshots import apply, changes_of
from tests.benchmarks.harness import Aim, Cost, Options, Report, median_cost, run
from tests.support.delta_tables import GrowingTable
from tests.support.embedded import catalog_spec

FILES: Final = (10, 1_000, 10_000)
COMMITS: Final = (100, 1_000, 10_000)
QUICK_FILES: Final = (5, 20)
QUICK_COMMITS: Final = (5, 20)
SAMPLES: Final = 15
EXPIRE_EVERY: Final = 50
FLAT: Final = 1.5


class Entries:
    """A table and as many entries of files for it as one likes, from one real file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.table = GrowingTable.new(catalog_spec(folder))
        self._model = self.table.write(0, 0, [b"x"])

    def append(self, files: int = 1) -> None:
        first = TableState.of(self.table.table).ends.get(0, 0)
        own = [self._file(first + number) for number in range(files)]
        layout = self.table.layout
        append = TableAppend(
            commit_id=uuid4(), starts={0: first}, ends={0: first + files}, files=own
        )
        self.table.catalog.append(layout, append)

    def _file(self, offset: int) -> DataFile:
        path = self.table.layout.data_file(0, offset, offset + 1, uuid4())
        return replace(self._model, path=path, first=offset, next=offset + 1)

    def expire(self) -> None:
        table = self.table.table
        changes = changes_of(table, time.time_ns() // 1_000_000, SnapshotPolicy())
        if changes:
            apply(table, changes)

    def mirror(self) -> MirrorResult:
        return mirror(self.table.table, self.table.topic_id)


def cost(work: Callable[[], object]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def add(report: Report, what: str, size: int, costs: Sequence[Cost]) -> float:
    """Add a row of the medians; the CPU time in milliseconds."""
    middle = median_cost(costs)
    report.add(what=what, size=size, ms=middle.wall_s * 1000, cpu_ms=middle.cpu_s * 1000)
    return middle.cpu_s * 1000


async def measure(report: Report, options: Options) -> None:
    folder = Path(mkdtemp(prefix="lakestream-growth-"))
    try:
        _mirrors(report, folder / "mirror", QUICK_FILES if options.quick else FILES)
        _appends(report, folder / "append", QUICK_COMMITS if options.quick else COMMITS)
    finally:
        rmtree(folder, ignore_errors=True)


def _mirrors(report: Report, folder: Path, sizes: Sequence[int]) -> None:
    """The first mirror of a table, those after single appends, and a repair."""
    for files in sizes:
        entries = Entries(folder / str(files))
        entries.append(files)
        add(report, "first mirror", files, [cost(entries.mirror)])
        samples = []
        for _ in range(SAMPLES):
            entries.append()
            samples.append(cost(entries.mirror))
        add(report, "mirror of one append", files, samples)
        log = delta_log.open_log(entries.table.table)
        assert log is not None
        add(report, "Delta checkpoint", files, [cost(log.create_checkpoint)])
        log.alter.set_table_properties({"delta.logRetentionDuration": "interval 3 days"})
        add(report, "repair of Delta", files, [cost(entries.mirror)])
        entries.table.close()


def _appends(report: Report, folder: Path, sizes: Sequence[int]) -> None:
    """One table that grows commit by commit, with expiry."""
    entries = Entries(folder)
    figures: dict[int, float] = {}
    for number in range(1, max(sizes) + 1):
        entries.append()
        if number % EXPIRE_EVERY == 0:
            entries.expire()
        if number in sizes:
            costs = [cost(entries.append) for _ in range(SAMPLES)]
            figures[number] = add(report, "append", number, costs)
            add(report, "expiry", number, [cost(entries.expire)])
    entries.table.close()
    ratio = figures[max(sizes)] / figures[min(sizes)]
    report.aims.append(
        Aim.at_most(
            f"CPU of an append after {max(sizes)} commits to {min(sizes)}", FLAT, ratio, "times"
        )
    )


if __name__ == "__main__":
    run("table_growth", measure)
