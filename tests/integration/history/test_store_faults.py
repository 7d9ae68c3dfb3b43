"""A real S3 server that fails while tables are read: nothing is called damaged that is whole."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from lakestream_spark.core.errors import Corrupt, Unavailable
from lakestream_spark.history.reader import TableReader
from lakestream_spark.table.cells import sums_of
from lakestream_spark.table.expected import ExpectedCell
from lakestream_spark.table.file_offsets import bounds
from lakestream_spark.table.runs import Run
from lakestream_spark.verify.content import check_cell
from lakestream_spark.verify.files import LiveFile
from tests.support.delta_tables import GrowingTable
from tests.support.failing_server import answering_503
from tests.support.flaky_proxy import FlakyProxy
from tests.support.history import MEMORY, LocalHistory, records_in
from tests.support.rewriting import data_files
from tests.support.s3 import NEEDS_S3, S3Server, s3_catalog, s3_server

__all__ = ["s3_server"]
pytestmark = [*NEEDS_S3, pytest.mark.long]

COUNT = 200


@pytest.fixture
async def proxy(s3_server: S3Server) -> AsyncIterator[FlakyProxy]:
    async with FlakyProxy(s3_server.host, s3_server.port) as proxy:
        yield proxy


@pytest.fixture
async def orders(
    tmp_path: Path, s3_server: S3Server, proxy: FlakyProxy
) -> AsyncIterator[GrowingTable]:
    """Two files of a few hundred kilobytes: more than what comes with a footer."""
    spec = s3_catalog(s3_server, tmp_path)
    endpoint = f"http://127.0.0.1:{proxy.port}"
    spec = replace(spec, properties={**spec.properties, "s3.endpoint": endpoint})
    growing = await asyncio.to_thread(GrowingTable.new, spec, f"orders{uuid4().hex}")
    noise = np.random.default_rng(7)
    for _ in range(2):
        values = [noise.bytes(2000) for _ in range(COUNT)]
        await asyncio.to_thread(growing.append, values=values)
    yield growing
    growing.close()


@pytest.fixture
def history(orders: GrowingTable) -> Iterator[LocalHistory]:
    reader = TableReader(orders.spec, MEMORY)
    yield LocalHistory(reader)
    reader.close()


Fault = Callable[[FlakyProxy], Awaitable[None]]


async def refusing(proxy: FlakyProxy) -> None:
    await proxy.refuse()


async def without_contents(proxy: FlakyProxy) -> None:
    """Files are there when they are looked for, and break off when they are read."""
    proxy.refuse_requests(b"GET ", b".parquet")


FAULTS = pytest.mark.parametrize("fault", [refusing, without_contents])


@FAULTS
async def test_a_store_that_goes_away_is_a_retriable_error_of_history(
    orders: GrowingTable, history: LocalHistory, proxy: FlakyProxy, fault: Fault
) -> None:
    topic = orders.topic
    await asyncio.to_thread(history.read, topic, 0, 1)
    await fault(proxy)
    with pytest.raises(Unavailable):
        await asyncio.to_thread(history.read, topic, COUNT)
    await proxy.heal()
    found = records_in(await asyncio.to_thread(history.read, topic, COUNT))
    assert found[-1].offset == 2 * COUNT - 1


async def test_a_store_that_answers_503_is_a_retriable_error_of_history(
    orders: GrowingTable, history: LocalHistory, proxy: FlakyProxy
) -> None:
    topic = orders.topic
    await asyncio.to_thread(history.read, topic, 0, 1)
    await proxy.refuse()
    async with answering_503(proxy.port):
        with pytest.raises(Unavailable):
            await asyncio.to_thread(history.read, topic, COUNT)


async def test_an_object_with_other_bytes_is_damaged_and_stays_so(
    orders: GrowingTable, history: LocalHistory
) -> None:
    def damage() -> None:
        path = paths_of(orders)[1]
        io = orders.spec.file_io()
        with io.new_input(path).open() as stream:
            data = bytearray(stream.read())
        data[4:100] = bytes(96)
        with io.new_output(path).create(overwrite=True) as stream:
            stream.write(bytes(data))

    await asyncio.to_thread(damage)
    for _ in range(2):
        with pytest.raises(Corrupt, match="is damaged"):
            await asyncio.to_thread(history.read, orders.topic, COUNT)


@FAULTS
async def test_verify_calls_no_file_damaged_that_it_could_not_read(
    orders: GrowingTable, proxy: FlakyProxy, fault: Fault
) -> None:
    io = orders.spec.file_io()
    file, cell = await asyncio.to_thread(lambda: cell_of(orders))
    await asyncio.to_thread(check_cell, io, [file], cell)
    await fault(proxy)
    with pytest.raises(Unavailable):
        await asyncio.to_thread(check_cell, io, [file], cell)
    await proxy.heal()
    await asyncio.to_thread(check_cell, io, [file], cell)


def cell_of(orders: GrowingTable) -> tuple[LiveFile, ExpectedCell]:
    """The first of the two files, as `verify` looks at it."""
    rows = orders.table.scan(f"__offset < {COUNT}").to_arrow()
    path = paths_of(orders)[0]
    file = LiveFile(
        path=path,
        location=path,
        partition=0,
        place=Run(0, COUNT),
        rows=COUNT,
        size=0,
        is_sorted=True,
        deleted=frozenset(),
    )
    (own,) = sums_of(rows)
    cell = ExpectedCell(
        partition=0,
        number=0,
        first=0,
        next=COUNT,
        rows=COUNT,
        checksum=own.checksum,
        missing=(),
    )
    return file, cell


def paths_of(orders: GrowingTable) -> list[str]:
    """Of the data files, in offset order."""
    files = sorted(data_files(orders.table), key=lambda file: bounds(file).offsets)
    return [file.file_path for file in files]
