"""The streaming source `lakestream_wal`: its offset is a plan number, its rows are slices.

Spark runs the reader in a process of its own beside the driver, so it opens the metadata store
itself. The driver makes the plans; a row is a slice's description, and the task that gets it reads
the WAL.
"""

from collections.abc import Iterator
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.spark.background import BackgroundLoop
from lakestream_spark.spark.plan import NO_PLAN, slices_of, tasks_of

SOURCE: Final = "lakestream_wal"
METADATA_OPTION: Final = "metadata"
JOB_OPTION: Final = "job"
TASK_BYTES_OPTION: Final = "taskBytes"
_PLAN: Final = "plan"


class WalSource(DataSource):
    """WAL slices that are not in a table yet."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> str:
        return "slice string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return WalStreamReader(
            self.options[METADATA_OPTION],
            self.options[JOB_OPTION],
            int(self.options[TASK_BYTES_OPTION]),
        )


class SlicePartition(InputPartition):
    """The slices of one task."""


class WalStreamReader(DataSourceStreamReader):
    """Cuts plans on the driver's side; `read` runs in the tasks and passes the slices on."""

    def __init__(self, metadata_url: str, job: str, task_bytes: int) -> None:
        self._metadata_url = metadata_url
        self._job = job
        self._task_bytes = task_bytes
        self._opened: tuple[BackgroundLoop, Metadata] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_PLAN: NO_PLAN}

    def latestOffset(  # noqa: N802
        self,
        start: object = None,  # noqa: ARG002
        limit: object = None,  # noqa: ARG002
    ) -> dict[str, int]:
        """PySpark 4.1 passes nothing, 4.2 passes a start and a limit."""
        loop, metadata = self._open()
        plan = loop.run(metadata.tables.latest_plan(job=self._job))
        return {_PLAN: NO_PLAN if plan is None else plan.number}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        # A restart asks for an empty range first.
        if start[_PLAN] == end[_PLAN]:
            return []
        loop, metadata = self._open()
        slices = loop.run(slices_of(metadata, end[_PLAN], self._task_bytes))
        return [
            SlicePartition([piece.to_json() for piece in task])
            for task in tasks_of(slices, self._task_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        for text in partition.value:
            yield (text,)

    def commit(self, end: dict[str, int]) -> None:
        loop, metadata = self._open()
        loop.run(metadata.tables.prune_plans(end[_PLAN], job=self._job))

    def stop(self) -> None:
        if self._opened is not None:
            loop, metadata = self._opened
            loop.run(metadata.close())
            loop.close()
            self._opened = None

    def _open(self) -> tuple[BackgroundLoop, Metadata]:
        if self._opened is None:
            loop = BackgroundLoop()
            metadata = loop.run(open_metadata(self._metadata_url, clock=SystemClock()))
            self._opened = (loop, metadata)
        return self._opened
