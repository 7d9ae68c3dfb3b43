"""A long backlog drains: MB/s from beginning to end, and the most memory it took.

5 GB of JSON events (lz4). A smaller topic is drained before, so that the JVM is warm. Memory is the
resident set of driver, JVM and Python workers at its highest.
"""

from pathlib import Path
from typing import Final

from tests.benchmarks.bench_compaction import WARM_UP, filled
from tests.benchmarks.drains import OURS, drainer
from tests.benchmarks.harness import GB, MB, Options, Report, run
from tests.benchmarks.process_tree import DRIVER, JVM, WORKERS, cpu_s, peaks
from tests.benchmarks.servers import scratch
from tests.support.ingress_process import ingress

BACKLOG: Final = "backlog"
MIB: Final = 1024 * 1024


def fill(folder: Path, total: int) -> int:
    """The bytes of the backlog; the broker is gone when it drains."""
    with ingress(folder) as broker:
        (listening,) = broker.ready()
        filled(listening.kafka, WARM_UP, total // 10)
        size, _ = filled(listening.kafka, BACKLOG, total)
        assert broker.stop() == 0
    return size


async def measure(report: Report, options: Options) -> None:
    total = 4_000_000 if options.quick else 5_000_000_000
    with scratch() as folder:
        size = fill(folder, total)
        with drainer(OURS, folder) as ours:
            ours.drain(WARM_UP)
            before = cpu_s(ours.process)
            with peaks(ours.process) as most:
                done = ours.drain(BACKLOG)
            report.add(
                gb=size / GB,
                mb_per_s=size / MB / done["wall_s"],
                cpu_s_per_gb=(cpu_s(ours.process) - before) / size * GB,
                files=done["files"],
                driver_mib=most[DRIVER] / MIB,
                jvm_mib=most[JVM] / MIB,
                workers_mib=most[WORKERS] / MIB,
                all_mib=most["sum"] / MIB,
            )


if __name__ == "__main__":
    run("compaction_backlog", measure)
