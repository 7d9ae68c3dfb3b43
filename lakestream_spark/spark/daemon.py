"""Spark's Python daemon with what tasks need already loaded: its workers are forks of it.

    --conf spark.python.daemon.module=lakestream_spark.spark.daemon

Spark lets go of workers that were idle for a minute, and a worker that starts empty spends two
seconds on imports. Forks of this process spend none.
"""

import sys


def _is_for_tasks() -> bool:
    """Planning of Python data sources has daemons of its own, which need nothing of ours."""
    return len(sys.argv) < 2 or sys.argv[1] in ("pyspark.worker", "")


if __name__ == "__main__":
    if _is_for_tasks():
        from lakestream_spark.kafka.arrow.compiled import decode_kernels
        from lakestream_spark.spark import task  # noqa: F401

        decode_kernels()
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
