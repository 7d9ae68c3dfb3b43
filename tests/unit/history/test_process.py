"""The process that reads tables for a broker: started at need, replaced when it dies."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import uvloop

from lakestream_spark.core import metrics
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.history.link import Answer
from lakestream_spark.history.remote import HistoryProcess
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.history import append_rows, history_process, records_in
from tests.support.ingress_process import eventually
from tests.support.rewriting import rewrite
from tests.support.tables import TableFiles, rows

PLENTY = 1_000_000
pytestmark = pytest.mark.long


@pytest.fixture
def two_rows(tables: StreamCatalog, files: TableFiles) -> None:
    append_rows(tables, files, rows(0, [b"a", b"b"]), start=0, end=2)


async def test_readers_that_come_at_once_share_one_process(
    tmp_path: Path, topic: Topic, two_rows: None
) -> None:
    async with history_process(tmp_path) as history:
        data, found, newest, again = await asyncio.gather(
            history.read(topic, 0, 0, PLENTY),
            history.offset_for_timestamp(topic, 0, 1, range(2)),
            history.offset_of_max_timestamp(topic, 0, range(2)),
            history.read(topic, 0, 1, PLENTY),
        )
        assert [record.value for record in records_in(data)] == [b"a", b"b"]
        assert found is not None
        assert newest is not None
        assert (found.offset, newest.offset) == (1, 1)
        assert records_in(again)[-1].value == b"b"
        assert history.pid is not None
        reader = psutil.Process(history.pid)
        assert reader.nice() > psutil.Process().nice()
        assert history.bytes_in_flight == 0
    assert not reader.is_running()


async def test_a_reader_that_gives_up_leaves_the_process_to_the_others(
    tmp_path: Path, topic: Topic, two_rows: None
) -> None:
    async with history_process(tmp_path) as history:
        gone = asyncio.create_task(history.read(topic, 0, 0, PLENTY))
        stays = asyncio.create_task(history.read(topic, 0, 0, PLENTY))
        await asyncio.sleep(0)
        gone.cancel()
        assert len(records_in(await stays)) == 2


async def test_reads_go_on_when_the_process_is_killed_at_any_time(
    tmp_path: Path, topic: Topic, two_rows: None
) -> None:
    async with history_process(tmp_path) as history:
        await history.read(topic, 0, 0, PLENTY)
        first = history.pid
        assert first is not None
        # Stopped, so that the questions are surely not answered before it is killed.
        os.kill(first, signal.SIGSTOP)
        waiting = [asyncio.create_task(history.read(topic, 0, 0, PLENTY)) for _ in range(5)]
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        for data in await asyncio.gather(*waiting):
            assert [record.value for record in records_in(data)] == [b"a", b"b"]
        assert history.pid != first


@pytest.mark.slow
async def test_a_process_that_hangs_is_replaced(
    tmp_path: Path, topic: Topic, two_rows: None
) -> None:
    async with history_process(tmp_path, answer_within_s=20.0) as history:
        await history.read(topic, 0, 0, PLENTY)
        first = history.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(Unavailable, match="not read in time"):
            await history.read(topic, 0, 0, PLENTY)
        assert len(records_in(await history.read(topic, 0, 0, PLENTY))) == 2
        assert history.pid != first


async def test_a_process_that_is_busy_for_long_is_left_to_finish(
    tmp_path: Path, topic: Topic, tables: StreamCatalog, files: TableFiles, two_rows: None
) -> None:
    async with history_process(tmp_path, answer_within_s=5.0) as history:
        first = await patiently(history, topic)
        with held_up(rewritten(tables, files)):
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await history.read(topic, 0, 2, PLENTY)
            # What was planned before is read meanwhile.
            assert len(records_in(await history.read(topic, 0, 0, PLENTY))) == 2
        assert len(records_in(await history.read(topic, 0, 0, PLENTY))) == 2
        assert history.pid == first


async def test_reads_that_wait_for_a_first_look_hold_one_share_of_the_bytes_in_flight(
    tmp_path: Path, topic: Topic, tables: StreamCatalog, files: TableFiles, two_rows: None
) -> None:
    async with history_process(tmp_path) as history:
        with held_up(rewritten(tables, files)):
            await history.start_ahead()
            waiting = [asyncio.create_task(history.read(topic, 0, 0, PLENTY)) for _ in range(20)]
            await asyncio.sleep(1)
            assert history.bytes_in_flight == PLENTY
            waiting[0].cancel()  # Its place is taken by the next one.
            waiting[1].cancel()
        for data in await asyncio.gather(*waiting[2:]):
            assert [record.value for record in records_in(data)] == [b"a", b"b"]
        assert history.bytes_in_flight == 0


async def patiently(history: HistoryProcess, topic: Topic) -> int:
    """The process that answers, however long its start takes."""
    while True:
        with suppress(Unavailable):
            await history.read(topic, 0, 0, PLENTY)
            assert history.pid is not None
            return history.pid


def rewritten(tables: StreamCatalog, files: TableFiles) -> Path:
    """The file that another engine put in the place of ours."""
    table = tables._catalog.load_table(files.layout.identifier)
    (path,) = rewrite(table, [table.scan().to_arrow()], row_group_rows=10)
    return Path(path.removeprefix("file://"))


@contextmanager
def held_up(path: Path) -> Iterator[None]:
    """Who opens the file waits until the block ends, and then finds it as it was."""
    data = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    try:
        yield
    finally:
        pipe = path.rename(path.with_suffix(".pipe"))
        path.write_bytes(data)
        with suppress(OSError):  # Nobody waits.
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


async def test_an_answer_is_never_larger_than_its_share_of_the_memory(
    tmp_path: Path, topic: Topic, tables: StreamCatalog, files: TableFiles
) -> None:
    noise = np.random.default_rng(7)
    values: list[bytes | None] = [noise.bytes(1000) for _ in range(3_000)]
    append_rows(tables, files, rows(0, values), start=0, end=3_000)
    async with history_process(tmp_path, memory_bytes=16 * 1024 * 1024) as history:
        data = await history.read(topic, 0, 0, 1 << 30)
        assert 100 * 1024 < len(data) <= 512 * 1024


def test_it_is_asked_over_the_loop_that_a_broker_runs_on(
    tmp_path: Path, topic: Topic, two_rows: None
) -> None:
    async def read() -> int:
        async with history_process(tmp_path) as history:
            return len(records_in(await history.read(topic, 0, 0, PLENTY)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(read()) == 2


async def test_errors_of_the_process_are_those_of_the_reader(
    tmp_path: Path, topic: Topic, two_rows: None
) -> None:
    retriable = metrics.HISTORY_ERRORS.of("Unavailable")
    before = retriable.value
    async with history_process(tmp_path) as history:
        with pytest.raises(Unavailable, match="does not reach this offset yet"):
            await history.read(topic, 0, 2, PLENTY)
        assert len(records_in(await history.read(topic, 0, 0, PLENTY))) == 2
    assert retriable.value == before + 1


async def test_a_catalog_that_cannot_be_opened_is_tried_again_by_the_next_reader(
    tmp_path: Path, topic: Topic, two_rows: None
) -> None:
    folder = tmp_path / "later"
    async with history_process(folder) as history:
        with pytest.raises(Unavailable, match="cannot be opened"):
            await history.read(topic, 0, 0, PLENTY)
        folder.symlink_to(tmp_path)
        assert len(records_in(await history.read(topic, 0, 0, PLENTY))) == 2


async def test_a_history_that_nobody_read_starts_nothing(tmp_path: Path) -> None:
    async with history_process(tmp_path) as history:
        assert history.pid is None
    assert list(tmp_path.iterdir()) == []


HELD = """
import asyncio
from lakestream_spark.history.remote import HistoryProcess
from lakestream_spark.table.spec import CatalogSpec

async def main():
    history = HistoryProcess(CatalogSpec(name="x", warehouse="file:///nowhere"), 1 << 26)
    await history._link()
    print(history.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_process_ends_with_a_broker_that_is_killed() -> None:
    broker = subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE, text=True)
    assert broker.stdout is not None
    reader = psutil.Process(int(broker.stdout.readline()))
    broker.kill()
    broker.communicate()
    eventually(lambda: not reader.is_running() or reader.status() == psutil.STATUS_ZOMBIE)


def test_a_broker_loads_neither_arrow_nor_pyiceberg() -> None:
    code = (
        "import lakestream_spark.app, sys; "
        "heavy = {'pyarrow', 'pyiceberg', 'numpy', 'pandas'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class Silent(HistoryProcess):
    """Has a process that never answers."""

    async def _answer(self, body: bytes) -> Answer:
        await asyncio.sleep(3600)
        raise AssertionError("unreachable")


async def test_waiting_for_room_and_for_the_answer_share_one_time(
    tmp_path: Path, topic: Topic
) -> None:
    history = Silent(catalog_spec(tmp_path), 1024 * 1024, answer_within_s=4.0)
    first = asyncio.create_task(history.read(topic, 0, 0, 1))
    await asyncio.sleep(2)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="not read in time"):
        await history.read(topic, 0, 0, 1)
    assert 2 < time.monotonic() - began < 5.5
    with pytest.raises(Unavailable):
        await first
