"""An archive of Spark's classes, so that the next JVM finds them loaded and checked.

    python -m lakestream_spark.spark.class_archive FILE

runs a small query of the kind that compacts and lets the JVM write its classes to FILE when it
ends. What always holds: an archive appears whole, synced and then renamed, because half an archive
ends the JVM that maps it; the newest few are kept.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakestream_spark.spark.jvm import COMPILING, archive_path
from lakestream_spark.spark.session import LOG_OPTION, local_session
from lakestream_spark.table.durable import sync
from lakestream_spark.table.spec import CatalogSpec

_KEPT: Final = 3
_PATIENCE_S: Final = 300.0


def build() -> Path | None:
    """Make the archive if there is none; None when it could not be made, which costs time only."""
    archive = archive_path()
    if archive is None or archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="making-", dir=archive.parent) as folder:
        made = Path(folder) / "classes.jsa"
        command = [sys.executable, "-m", "lakestream_spark.spark.class_archive", str(made)]
        try:
            subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=True)
            sync([str(made)])
            made.rename(archive)
        except (OSError, subprocess.SubprocessError):
            return None
    for old in sorted(archive.parent.glob("*.jsa"), key=lambda each: -each.stat().st_mtime)[_KEPT:]:
        old.unlink(missing_ok=True)
    return archive


class _Rehearsal(DataSource):
    """A stream of two small batches."""

    @classmethod
    def name(cls) -> str:
        return "lakestream_rehearsal"

    def schema(self) -> str:
        return "number bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _RehearsalReader()


class _RehearsalReader(DataSourceStreamReader):
    def __init__(self) -> None:
        self._asked = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"end": 0}

    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802
        self._asked = min(self._asked + 1, 2)
        return {"end": self._asked}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(start["end"], end["end"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _collect(rows: DataFrame, _: int) -> None:
    rows.collect()


def rehearse(spark: SparkSession, folder: Path) -> None:
    """What a compaction asks of Spark, without a log."""
    spark.dataSource.register(_Rehearsal)
    numbers = spark.readStream.format(_Rehearsal.name()).load()
    query = (
        numbers.mapInArrow(_pass_on, "number bigint")  # type: ignore[arg-type]
        .observe("rehearsal", f.sum("number").alias("sum"))
        .writeStream.foreachBatch(_collect)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 1):
        query.awaitTermination(1)
    query.stop()


def main(archive: Path) -> None:
    """Rehearse, end the JVM, and wait until it has written its classes."""
    with TemporaryDirectory(prefix="lakestream-rehearsal-") as scratch:
        folder = Path(scratch)
        catalog = CatalogSpec(
            name="lake",
            warehouse=folder.as_uri(),
            properties={"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"},
        )
        options = [LOG_OPTION, *COMPILING, f"-XX:ArchiveClassesAtExit={archive}"]
        more = {"spark.driver.extraJavaOptions": " ".join(options)}
        spark = local_session(catalog, more=more)
        gateway: Any = spark.sparkContext._gateway
        rehearse(spark, folder)
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        ended(gateway.proc)


def ended(jvm: "subprocess.Popen[bytes]") -> None:
    """Wait for the JVM, whose classes are whole only if it ended well; raises otherwise."""
    code = jvm.wait(_PATIENCE_S)
    if code != 0:
        raise subprocess.CalledProcessError(code, "java")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
