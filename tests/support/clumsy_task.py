"""Tasks whose first attempts come to grief after they have written their files.

Spark then runs them again, as it does when a worker dies or when a task is slower than the others.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from lakestream_spark.spark.task import CompactTask

STRAGGLER: Final = 1
_STRAGGLES_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DyingTask(CompactTask):
    """The worker of every first attempt is killed before it can tell of its files."""

    diary: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = list(CompactTask.__call__(self, batches))
        if _noted(self.diary).attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from results


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglingTask(CompactTask):
    """The first attempt of one task never comes to its end; it would tell of its files at last."""

    diary: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = list(CompactTask.__call__(self, batches))
        context = _noted(self.diary)
        if context.attemptNumber() == 0 and context.partitionId() == STRAGGLER:
            time.sleep(_STRAGGLES_S)
        yield from results


def _noted(diary: Path) -> TaskContext:
    """The attempt, which the diary has from now on."""
    context = TaskContext.get()
    assert context is not None
    name = f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}"
    (diary / name).touch(exist_ok=False)
    return context


def attempts(diary: Path) -> dict[str, int]:
    """How many attempts of each task have written their files."""
    found: dict[str, int] = {}
    for path in diary.iterdir():
        task = path.name.rpartition("-")[0]
        found[task] = found.get(task, 0) + 1
    return found
