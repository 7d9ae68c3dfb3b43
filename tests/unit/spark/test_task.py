import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestream_spark.app import wal_stores
from lakestream_spark.spark.plan import newest_plan, slices_of
from lakestream_spark.spark.slices import Slice
from lakestream_spark.spark.task import CompactTask
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.rows import from_arrow
from tests.support.embedded import catalog_spec, embedded_lake, lake_settings
from tests.support.kafka import Sent, produce


def run(folder: Path, piece: Slice) -> dict[str, Any]:
    """The task on one slice, as a Spark worker calls it."""
    task = CompactTask(stores=wal_stores(lake_settings(folder)), catalog=catalog_spec(folder))
    batch = pa.RecordBatch.from_pylist([{"slice": piece.to_json()}])
    (result,) = task(iter([batch]))
    (row,) = result.to_pylist()
    return dict(row)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_of_a_stock_client_become_rows_in_offset_order(
    tmp_path: Path, codec: str
) -> None:
    sent = [Sent(b"k%d" % n, b"v" * n, [("h", None), ("h", b"")], n + 1) for n in range(50)]
    async with embedded_lake(tmp_path) as lake:
        await asyncio.to_thread(
            lambda: produce(lake.bootstrap, "orders", sent, **{"compression.type": codec})
        )
        plan = await newest_plan(lake.metadata)
        (piece,) = await slices_of(lake.metadata, plan)
    row = await asyncio.to_thread(run, tmp_path, piece)
    file = DataFile.from_json(row["file"])
    assert (row["plan"], row["first"], row["next"], file.rows) == (plan, 0, 50, 50)
    path = Path(file.path.removeprefix("file://"))
    assert path.stat().st_size == file.size
    records = [each.record for each in from_arrow(pq.read_table(path))]
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records] == [
        (n, s.timestamp_ms, s.key, s.value, ((b"h", None), (b"h", b""))) for n, s in enumerate(sent)
    ]


async def test_repeated_task_writes_a_file_of_its_own(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path) as lake:
        await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"v")])
        (piece,) = await slices_of(lake.metadata, await newest_plan(lake.metadata))
    first, second = [await asyncio.to_thread(run, tmp_path, piece) for _ in range(2)]
    assert DataFile.from_json(first["file"]).path != DataFile.from_json(second["file"]).path
