"""Who gets Spark's next free slot when a compaction and an upkeep share one Spark.

First in, first out is Spark's own rule: the tasks of a merge would run to the last before those of
a batch that came a moment later, and its topics would miss their lag. In a fair Spark the pool with
fewer running tasks is next; of two that have as many it is the one whose name comes first.
"""

from typing import Final

from pyspark.sql import SparkSession

COMPACT: Final = "compact"
UPKEEP: Final = "upkeep"
FAIR: Final = {"spark.scheduler.mode": "FAIR"}
_POOL: Final = "spark.scheduler.pool"
_MOST_AT_ONCE: Final = 5
_SHORT_BYTES: Final = 16 * 1024 * 1024


def join_pool(spark: SparkSession, pool: str) -> None:
    """What this thread starts, and threads that it starts, belongs to the pool."""
    spark.sparkContext.setLocalProperty(_POOL, pool)


def rewrites_at_once(spark: SparkSession, most_bytes: int) -> int:
    """How many partitions are rewritten together, of which one has `most_bytes`: a task that writes
    a large file holds its slot for many seconds, so half the slots stay free for batches."""
    if most_bytes < _SHORT_BYTES:
        return _MOST_AT_ONCE
    return max(1, min(_MOST_AT_ONCE, spark.sparkContext.defaultParallelism // 2))
