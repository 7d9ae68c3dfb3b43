"""One copy: what lies in the store after an hour of 5 MB/s, beside the table's own files.

`lakestream up` serves, compacts and merges with its default settings while JSON events (lz4) flow.
At the moment the flow ends, and not later, the bytes of the WAL and those of the data files are
counted on the disk. Files of the current snapshot are the table; what older snapshots still refer
to, and what waits to be collected, is counted apart.
"""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from pyiceberg.table import Table

from lakestream_spark.table.iceberg import StreamCatalog
from tests.benchmarks.events import client, create, result
from tests.benchmarks.harness import MB, Aim, Options, Report, run
from tests.benchmarks.servers import scratch
from tests.support.embedded import catalog_spec
from tests.support.ingress_process import ingress

TOPIC: Final = "events"
PARTITIONS: Final = 4
AIM: Final = 1.1


class Flow(NamedTuple):
    bytes_per_s: int
    seconds: float


class Stored(NamedTuple):
    """Bytes of each kind, and of how many files the table is."""

    wal: int
    table: int
    retained: int
    metadata: int
    files: int


def stored(folder: Path) -> Stored | None:
    """What lies below the folder now; None before the first commit."""
    with closing(StreamCatalog.open(catalog_spec(folder))) as tables:
        if not tables._catalog.table_exists(("streams", TOPIC)):
            return None
        table: Table = tables._catalog.load_table(("streams", TOPIC))
        snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    current = int(snapshot.summary["total-files-size"] or 0)
    data = _bytes_below(folder / "warehouse", "*.parquet")
    index = _bytes_below(folder, "metadata.db*")
    return Stored(
        wal=_bytes_below(folder / "wal"),
        table=current,
        retained=data - current,
        metadata=_bytes_below(folder / "warehouse") - data + index,
        files=int(snapshot.summary["total-data-files"] or 0),
    )


def _bytes_below(folder: Path, pattern: str = "*") -> int:
    size = 0
    for path in folder.rglob(pattern):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # Reclaimed or merged while we look.
            continue
    return size


async def measure(report: Report, options: Options) -> None:
    flow = Flow(1_000_000, 6.0) if options.quick else Flow(5_000_000, 3_600.0)
    with scratch() as folder, ingress(folder, name="up") as up:
        (listening,) = await asyncio.to_thread(up.ready)
        lag = {"lakestream_table_lag_ms": "1000"} if options.quick else {}
        await asyncio.to_thread(create, listening.kafka, [TOPIC], PARTITIONS, **lag)
        spec = {"role": "flow", "bootstrap": listening.kafka, "partitions": PARTITIONS}
        sender = client(**spec, topics=[TOPIC], **flow._asdict())
        sent = await asyncio.to_thread(result, sender)
        while (found := await asyncio.to_thread(stored, folder)) is None:
            await asyncio.sleep(0.5)  # Only when it flows so briefly that Spark still starts.
        await asyncio.to_thread(up.stop)
    ratio = (found.wal + found.table) / found.table
    report.add(
        seconds=sent["seconds"],
        mb_per_s=sent["bytes"] / MB / sent["seconds"],
        sent_mb=sent["bytes"] / MB,
        wal_mb=found.wal / MB,
        table_mb=found.table / MB,
        files=found.files,
        wal_and_table_of_table=ratio,
        retained_mb=found.retained / MB,
        metadata_mb=found.metadata / MB,
    )
    report.aims.append(Aim.at_most("WAL and table to the table's own files", AIM, ratio, "times"))


if __name__ == "__main__":
    run("one_copy", measure)
