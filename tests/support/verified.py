"""A topic with records in its table and in its WAL, and what `lakestream verify` says of it."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import Table

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.verify import verify_command
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.upkeep.maintain import Maintainer, TopicReport
from lakestream_spark.table.upkeep.policy import UpkeepPolicy
from lakestream_spark.table.upkeep.topic import Tools
from tests.support.embedded import catalog_spec, embedded_lake, metadata_url
from tests.support.kafka import Sent, produce
from tests.support.local_rewriter import LocalRewriter
from tests.support.sparkless import SESSION_S, SparklessCompaction

T = TypeVar("T")
TOPIC = "orders"
ONE_FILE = CompactPolicy(poll_s=0.02, session_s=SESSION_S)
BOTH = {"lakestream.table.formats": "iceberg,delta"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Everything under one folder; nothing runs."""

    folder: Path

    def send(self, count: int) -> None:
        """So many records to partition 0, acknowledged and in the WAL."""
        asyncio.run(self._send(count))

    async def _send(self, count: int) -> None:
        async with embedded_lake(self.folder) as lake:
            if not await lake.metadata.topics.list():
                await lake.metadata.topics.create(TOPIC, config=BOTH)
            sent = [Sent(b"k%d" % n, b"v%d" % n, [("h", None)]) for n in range(count)]
            await asyncio.to_thread(produce, lake.bootstrap, TOPIC, sent)

    def commit(self) -> None:
        """Move everything into the table, as one file."""
        compaction = SparklessCompaction(self.folder, policy=ONE_FILE)
        try:
            compaction.run_until_drained()
        finally:
            compaction.close()

    def with_metadata(self, work: Callable[[Metadata], Awaitable[T]]) -> T:
        """What the work gives with the metadata store open."""

        async def done() -> T:
            metadata = await open_metadata(metadata_url(self.folder), clock=SystemClock())
            try:
                return await work(metadata)
            finally:
                await metadata.close()

        return asyncio.run(done())

    def maintain(self, policy: UpkeepPolicy) -> Mapping[str, TopicReport]:
        """One round of upkeep, without Spark."""
        catalog = StreamCatalog.open(catalog_spec(self.folder))

        async def work(metadata: Metadata) -> Mapping[str, TopicReport]:
            tools = Tools(
                catalog=catalog,
                rewriter=LocalRewriter(lambda name: catalog._catalog.load_table(tuple(name))),
                intents=metadata.tables,
                cells=metadata.cells,
                log_starts=metadata.retention,
                clock=SystemClock(),
                policy=policy,
            )
            maintainer = Maintainer(
                tools, metadata.topics, metadata.leases, metadata.problems, holder="test"
            )
            return await maintainer.round()

        try:
            return self.with_metadata(work)
        finally:
            catalog.close()

    def table(self) -> Table:
        catalog = StreamCatalog.open(catalog_spec(self.folder))
        try:
            (identifier,) = catalog._catalog.list_tables("streams")
            return catalog._catalog.load_table(identifier)
        finally:
            catalog.close()

    def data_files(self) -> list[Path]:
        """Of the current snapshot, in offset order."""
        tasks = self.table().scan().plan_files()
        return sorted(Path(task.file.file_path.removeprefix("file://")) for task in tasks)

    def verify(self, *options: str) -> tuple[int, str]:
        """The exit code, and everything that was printed."""
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            code = run(verify_command, [TOPIC, "--data", str(self.folder), *options])
        return code, printed.getvalue()


def rewritten(path: Path, rows: pa.Table) -> None:
    """Other rows under the name of a file."""
    path.unlink()
    pq.write_table(
        rows,
        path,
        compression="zstd",
        store_schema=False,
        use_dictionary=False,
        write_statistics=False,
        column_encoding={"__value": "DELTA_LENGTH_BYTE_ARRAY", "__offset": "DELTA_BINARY_PACKED"},
    )


def same_size(path: Path, rows: pa.Table) -> None:
    """Other rows in a file of the same size, which only a look at the rows tells."""
    size = path.stat().st_size
    rewritten(path, rows)
    grown = path.stat().st_size
    assert grown <= size, "the file's own writer gives larger ones"
    data = path.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    path.write_bytes(data[:-footer] + bytes(size - grown) + data[-footer:])


def alter_value(path: Path) -> None:
    """Another value in the eighth row."""
    rows = pq.read_table(path)
    values = pc.replace_with_mask(
        rows["__value"].combine_chunks(),
        pa.array([n == 7 for n in range(len(rows))]),
        pa.array([b"V7"], rows["__value"].type),
    )
    place = rows.schema.get_field_index("__value")
    same_size(path, rows.set_column(place, rows.schema.field(place), values))
