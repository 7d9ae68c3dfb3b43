"""The first record of a table with many files: from the question to the answer of the reader.

Cold: a process that reads tables is started, opens the catalog and plans all files. Started ahead:
the same, asked when the process stands by and has read nothing yet, as that of a broker does. Warm
plan: the process has planned the table and read the last row of the first file, so that the rows
asked for are still to be read. New table: the process runs and has planned other tables only. Only
the first file exists: who reads its rows opens no other.
"""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final
from uuid import uuid4

from lakestream_spark.history.remote import HistoryProcess
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend
from lakestream_spark.table.columns import ICEBERG_SCHEMA, OFFSET
from lakestream_spark.table.files import DataFile
from tests.benchmarks.harness import Aim, Options, Report, run
from tests.benchmarks.kafka_clients import values
from tests.benchmarks.servers import scratch
from tests.support.delta_tables import GrowingTable
from tests.support.embedded import catalog_spec

FILES: Final = (100, 10_000)
QUICK_FILES: Final = (5,)
ROUNDS: Final = 5
MEMORY: Final = 256 * 1024 * 1024
MAX_BYTES: Final = 1024 * 1024
STARTED_S: Final = 5.0
COLD_MS: Final = 2_000.0
WARM_MS: Final = 300.0
OFFSET_ID: Final = ICEBERG_SCHEMA.find_field(OFFSET).field_id
FIRST_ROWS: Final = values(1_000) * 20


def make_table(folder: Path, files: int) -> Topic:
    """A table with so many files in one commit, the first of them real."""
    table = GrowingTable.new(catalog_spec(folder), f"t{uuid4().hex}")
    first = table.write(0, 0, FIRST_ROWS)
    count = len(FIRST_ROWS)
    entries = [first, *(_entry(table, first, n * count, count) for n in range(1, files))]
    append = TableAppend(
        commit_id=uuid4(), starts={0: 0}, ends={0: files * count}, files=tuple(entries)
    )
    table.catalog.append(table.layout, append)
    table.close()
    return table.topic


def _entry(table: GrowingTable, model: DataFile, first: int, count: int) -> DataFile:
    lowest, highest = (n.to_bytes(8, "little").hex() for n in (first, first + count - 1))
    statistics = replace(
        model.statistics,
        lower_bounds={**model.statistics.lower_bounds, OFFSET_ID: lowest},
        upper_bounds={**model.statistics.upper_bounds, OFFSET_ID: highest},
    )
    return replace(
        model,
        path=table.layout.data_file(0, first, first + count, uuid4()),
        first=first,
        next=first + count,
        statistics=statistics,
    )


async def read_ms(
    history: HistoryProcess, topic: Topic, offset: int = 0, max_bytes: int = MAX_BYTES
) -> float:
    began = time.perf_counter()
    assert await history.read(topic, 0, offset, max_bytes)
    return (time.perf_counter() - began) * 1000


async def measure(report: Report, options: Options) -> None:
    rounds = 1 if options.quick else ROUNDS
    with scratch() as folder:
        for files in QUICK_FILES if options.quick else FILES:
            await _measure_files(report, folder, files, rounds)


async def _measure_files(report: Report, folder: Path, files: int, rounds: int) -> None:
    topic = make_table(folder, files)
    cold: list[float] = []
    ahead: list[float] = []
    warm: list[float] = []
    new_table: list[float] = []
    for _ in range(rounds):
        history = HistoryProcess(catalog_spec(folder), MEMORY)
        cold.append(await read_ms(history, topic))
        await history.close()
        history = HistoryProcess(catalog_spec(folder), MEMORY)
        await history.start_ahead()
        await asyncio.sleep(STARTED_S)
        ahead.append(await read_ms(history, topic))
        await history.close()
        history = HistoryProcess(catalog_spec(folder), MEMORY)
        await read_ms(history, make_table(folder, 1))
        new_table.append(await read_ms(history, topic, len(FIRST_ROWS) - 1, 1))
        warm.append(await read_ms(history, topic))
        await history.close()
    for what, own in (
        ("cold", cold),
        ("started ahead", ahead),
        ("new table", new_table),
        ("warm plan", warm),
    ):
        report.add(what=what, files=files, ms=median(own), worst_ms=max(own))
    if files == FILES[-1]:
        report.aims += [
            Aim.at_most(f"{files} files, cold", COLD_MS, median(cold), "ms"),
            Aim.at_most(f"{files} files, cold, started ahead", COLD_MS, median(ahead), "ms"),
            Aim.at_most(f"{files} files, warm plan", WARM_MS, median(warm), "ms"),
        ]


if __name__ == "__main__":
    run("replay_first", measure)
