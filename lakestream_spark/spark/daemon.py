"""Spark's Python daemon with what tasks need already loaded: its workers are forks of it.

    --conf spark.python.daemon.module=lakestream_spark.spark.daemon

Spark lets go of workers that were idle for a minute, and a worker that starts empty spends two
seconds on imports. Forks of this process spend none. Around every task a worker collects garbage
and reads the directories of archives on its path again; what is loaded here is left out of both.
"""

import gc
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from zipimport import zipimporter


def _is_for_tasks() -> bool:
    """Planning of Python data sources has daemons of its own, which need nothing of ours."""
    return len(sys.argv) < 2 or sys.argv[1] in ("pyspark.worker", "")


def without_archives(path: list[str]) -> list[str]:
    """The path without the archives in which an installed pyspark ships itself once more."""
    archives = [each for each in path if each.endswith((".zip", ".jar"))]
    unpacked = [each for each in path if each not in archives]
    found = PathFinder.find_spec("pyspark", unpacked)
    if found is None or found.origin is None or PathFinder.find_spec("py4j", unpacked) is None:
        return path
    # Of another installation: its workers speak another version of the protocol, perhaps.
    home = Path(found.origin).parent.resolve()
    own = {each for each in archives if home in Path(each).resolve().parents}
    return [each for each in path if each not in own]


def forget_archives(path: list[str]) -> None:
    """What is not on the path is not looked at again either."""
    for known in list(sys.path_importer_cache):
        if isinstance(sys.path_importer_cache[known], zipimporter) and known not in path:
            del sys.path_importer_cache[known]


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    forget_archives(sys.path)
    if _is_for_tasks():
        from lakestream_spark.kafka.arrow.compiled import decode_kernels, hash_kernel
        from lakestream_spark.spark import task  # noqa: F401

        decode_kernels()
        hash_kernel()
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
