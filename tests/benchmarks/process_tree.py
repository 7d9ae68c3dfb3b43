"""What a process with all its descendants uses: CPU time so far, and the most memory seen.

CPU time of descendants that have ended counts too, once somebody has waited for them. Memory is
the resident set by role, as the sum of its processes: pages that forks share are in it many times.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

_EVERY_S = 0.1
DRIVER = "driver"
JVM = "JVM"
WORKERS = "workers"


def tree(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def cpu_s(process: psutil.Process) -> float:
    """CPU-seconds of the whole tree."""
    total = 0.0
    for each in tree(process):
        with suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])  # own and of children: user and system
    return total


@contextmanager
def peaks(process: psutil.Process) -> Iterator[dict[str, int]]:
    """The largest resident set of each role while the block runs."""
    found: dict[str, int] = defaultdict(int)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY_S):
            for role, size in _resident(process).items():
                found[role] = max(found[role], size)

    watcher = threading.Thread(target=watch, name="peaks", daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def _resident(process: psutil.Process) -> dict[str, int]:
    sizes: dict[str, int] = defaultdict(int)
    for each in tree(process):
        with suppress(psutil.NoSuchProcess):
            role = DRIVER if each == process else JVM if each.name() == "java" else WORKERS
            size = each.memory_info().rss
            sizes[role] += size
            sizes["sum"] += size
    return sizes
