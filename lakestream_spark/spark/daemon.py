"""Spark's Python daemon with what tasks need already loaded: its workers are forks of it.

    --conf spark.python.daemon.module=lakestream_spark.spark.daemon

Spark lets go of workers that were idle for a minute, and a worker that starts empty spends two
seconds on imports. Forks of this process spend none. Around every task a worker collects garbage
and reads the directories of zips on its path again; what is loaded here is left out of both.
"""

import gc
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def _is_for_tasks() -> bool:
    """Planning of Python data sources has daemons of its own, which need nothing of ours."""
    return len(sys.argv) < 2 or sys.argv[1] in ("pyspark.worker", "")


def without_zips(path: list[str]) -> list[str]:
    """The path without the zips in which an installed pyspark ships itself."""
    zips = [
        Path(each) for each in path if each.endswith(".zip") and Path(each).parent.name == "lib"
    ]
    unpacked = [each for each in path if Path(each) not in zips]
    found = PathFinder.find_spec("pyspark", unpacked)
    if found is None or found.origin is None or PathFinder.find_spec("py4j", unpacked) is None:
        return path
    # Of another installation: its workers speak another version of the protocol, perhaps.
    home = Path(found.origin).parent
    own = [str(each) for each in zips if each.parents[2].resolve() == home.resolve()]
    return [each for each in path if each not in own]


if __name__ == "__main__":
    sys.path[:] = without_zips(sys.path)
    if _is_for_tasks():
        from lakestream_spark.kafka.arrow.compiled import decode_kernels, hash_kernel
        from lakestream_spark.spark import task  # noqa: F401

        decode_kernels()
        hash_kernel()
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
