"""The full verification: every row by Iceberg and by Delta, hashed by Spark as tasks hash them."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakestream_spark.cli.verify import run_verify
from lakestream_spark.core.errors import Corrupt
from lakestream_spark.kafka.arrow.row_hash import row_hashes
from lakestream_spark.kafka.records import Record, RecordHeader
from lakestream_spark.spark.verify import ROW_HASH
from lakestream_spark.table.arrow_rows import record_columns
from lakestream_spark.table.rows import Row, to_arrow
from lakestream_spark.verify.pinned import Asked
from tests.support.embedded import catalog_spec, lake_settings
from tests.support.frugal_spark import frugal
from tests.support.spark import ignore_sockets_of_spark, spark_session
from tests.support.verified import TOPIC, Platform, alter_value

pytestmark = [pytest.mark.spark, ignore_sockets_of_spark]


def test_spark_compares_every_row(tmp_path: Path) -> None:
    platform = Platform(folder=tmp_path / "data")
    for _ in range(2):
        platform.send(100)
        platform.commit()
    platform.table().delete("__offset = 150")
    platform.send(1)
    platform.commit()
    with spark_session(catalog_spec(platform.folder)) as spark:
        frugal(spark)
        _compare_hashes(spark, tmp_path)
        settings = lake_settings(platform.folder)
        certificate = run_verify(settings, TOPIC, Asked(), session=lambda: spark)
        (part,) = certificate.partitions
        assert (part.rows, certificate.looked.mode, certificate.looked.cells_read) == (
            *(200, "full", 1),
        )
        assert certificate.delta is not None
        assert certificate.delta.late is None
        alter_value(platform.data_files()[0])
        with pytest.raises(Corrupt, match="rows are not those that were committed"):
            run_verify(settings, TOPIC, Asked(), session=lambda: spark)


def _compare_hashes(spark: SparkSession, folder: Path) -> None:
    """Rows of all kinds, by both."""
    random = Random(7)

    def some(most: int) -> bytes | None:
        kind = random.random()
        return None if kind < 0.2 else random.randbytes(0 if kind < 0.3 else random.randrange(most))

    rows = [
        Row(
            Record(
                random.randrange(2**62),
                random.choice([-5, 0, 1_700_000_000_123, 2**62, -(2**60)]),
                some(80),
                some(300),
                tuple(
                    RecordHeader(random.choice([b"a", b"", b"\xc3\xa9", b"\xff"]), some(20))
                    for _ in range(random.choice([0, 0, 1, 2, 5]))
                ),
            ),
            random.random() < 0.5,
        )
        for _ in range(2000)
    ]
    table = to_arrow(0, rows)
    (folder / "rows").mkdir()
    pq.write_table(table, folder / "rows" / "all.parquet")
    found = spark.read.parquet(str(folder / "rows")).selectExpr(ROW_HASH).collect()
    (piece,) = table.combine_chunks().to_batches()
    assert [row[0] for row in found] == row_hashes(record_columns(piece)).view(np.int64).tolist()
