"""The data source `lakestream`, as a batch and as a stream: history, then tail.

Spark plans a read in a process of its own beside the driver, a new one for every batch query and
one that lasts for a stream, so the installation is opened there. What is slow to load is loaded
when it is used: Spark loads this module to find out which data sources there are.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from lakestream_spark.spark.reading.columns import kafka_shape, schema, table_shape
from lakestream_spark.spark.reading.options import Place, ReadOptions, parse
from lakestream_spark.spark.reading.pieces import Piece
from lakestream_spark.spark.reading.position import Position, at_most, from_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream_spark.spark.reading.installation import Installation, Opened

try:  # New in PySpark 4.2: with it a stream with `availableNow` ends in several batches.
    from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found,unused-ignore]
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    ReadMaxRows, SupportsTriggerAvailableNow = None, object

SOURCE: Final = "lakestream"


class LakestreamSource(DataSource):
    """Topics as rows; see `options`. A subclass says where the installation is."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    @staticmethod
    @abstractmethod
    def installation(options: ReadOptions) -> "Installation":
        """What the options `data` and `conf` name."""

    def schema(self) -> str:
        if self.options.get("columns", "").strip().lower() != "kafka":
            return schema(table_shape())
        headers = self.options.get("includeHeaders", "true").strip().lower() != "false"
        return schema(kafka_shape(headers=headers))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        options = parse(self.options, streaming=False)
        return LakestreamReader(self.installation(options), options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        options = parse(self.options, streaming=True)
        return LakestreamStreamReader(self.installation(options), options)


class PiecePartition(InputPartition):
    """The pieces of one task."""

    value: Sequence[Piece]


class LakestreamReader(DataSourceReader):
    """A batch: planned anew, with what is acknowledged by then, each time it is executed."""

    def __init__(self, installation: "Installation", options: ReadOptions) -> None:
        self._installation = installation
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        # Here and not above, in this function and below: see the head of this module.
        from lakestream_spark.spark.reading.installation import Opened
        from lakestream_spark.spark.reading.place import logs, resolve

        assert self._options.ending is not None
        with closing(Opened(self._installation)) as opened:
            found = logs(opened, self._options)
            start = resolve(opened, self._options.starting, found)
            end = resolve(opened, self._options.ending, found)
            return _planned(opened, self._options, found, start, end)

    def read(self, partition: InputPartition | None) -> Iterator["pa.RecordBatch"]:
        return _read(self._installation, self._options, partition)


class LakestreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc,unused-ignore]
    """A stream; its offset is a position, so a checkpoint outlives every process."""

    def __init__(self, installation: "Installation", options: ReadOptions) -> None:
        self._installation = installation
        self._options = options
        self._opened: Opened | None = None
        self._begun: Position | None = None
        """Where the next batch begins: PySpark 4.1 does not say."""
        self._goal: Position | None = None
        """Where a stream with `availableNow` ends."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        from lakestream_spark.spark.reading.place import logs, resolve

        opened = self._open()
        place: Place = self._options.starting
        self._begun = resolve(opened, place, logs(opened, self._options))
        return to_json(self._begun)

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """PySpark 4.1 passes nothing, 4.2 passes a start and a limit."""
        end = self._latest() if self._goal is None else self._goal
        begun = self._begun if start is None else from_json(start)
        most = self._options.max_offsets if limit is None else getattr(limit, "max_rows", None)
        if begun is not None and most is not None:
            end = at_most(begun, end, most)
        return to_json(end)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Asked by PySpark 4.2 and later."""
        if self._options.max_offsets is None:
            return super().getDefaultReadLimit()  # type: ignore[misc,unused-ignore]
        return ReadMaxRows(self._options.max_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Asked by PySpark 4.2 and later."""
        self._goal = self._latest()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Asked by PySpark 4.2 and later."""
        return to_json(self._latest())

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        from lakestream_spark.spark.reading.place import known_logs

        self._begun = from_json(end)
        # A restart asks for an empty range first.
        if start == end:
            return []
        opened = self._open()
        found = known_logs(opened, self._options)
        return _planned(opened, self._options, found, from_json(start), self._begun)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return _read(self._installation, self._options, partition)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _latest(self) -> Position:
        from lakestream_spark.spark.reading.place import known_logs, latest

        return latest(known_logs(self._open(), self._options))

    def _open(self) -> "Opened":
        from lakestream_spark.spark.reading.installation import Opened

        if self._opened is None:
            self._opened = Opened(self._installation)
        return self._opened


def _planned(
    opened: "Opened", options: ReadOptions, found: Any, start: Position, end: Position
) -> list[InputPartition]:
    from lakestream_spark.spark.reading.planning import Losses, tasks_between

    losses = Losses(fail=options.fail_on_data_loss)
    tasks = tasks_between(opened, found, start, end, losses)
    return [PiecePartition(task) for task in tasks]


def _read(
    installation: "Installation", options: ReadOptions, partition: InputPartition | None
) -> Iterator["pa.RecordBatch"]:
    from lakestream_spark.spark.reading.rows import RowReader

    shape = kafka_shape(headers=options.headers) if options.kafka_columns else table_shape()
    reader = RowReader(
        installation=installation, shape=shape, fail_on_data_loss=options.fail_on_data_loss
    )
    # Spark makes one task without a partition when there are none.
    return reader.read(() if partition is None else partition.value)
