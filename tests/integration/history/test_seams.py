"""What moves between two looks of one request: the seam, the log start, and the rows themselves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.history.remote import HistoryProcess
from lakestream_spark.ingress.handlers import fetch, list_offsets
from lakestream_spark.kafka.pieces import Piece
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.wal.reader import WalReader
from tests.support.asking import Asking
from tests.support.embedded import catalog_spec, embedded_lake
from tests.support.history import records_in
from tests.support.kafka import Sent, produce
from tests.support.raw_fetch import VERSION, fetch_request
from tests.support.sparkless import SparklessCompaction
from tests.support.wire import Wire

TOPIC = "orders"
LATER_MS = 1_800_000_000_000
pytestmark = pytest.mark.long


def compact(folder: Path) -> None:
    with closing(SparklessCompaction(folder)) as compaction:
        compaction.run_until_drained()


def erase(folder: Path, condition: str) -> None:
    with closing(catalog_spec(folder).open()) as catalog:
        catalog.load_table(("streams", TOPIC)).delete(condition)


async def send(bootstrap: str, count: int, timestamp_ms: int = 1_700_000_000_000) -> None:
    sent = [Sent(None, b"v", timestamp_ms=timestamp_ms) for _ in range(count)]
    await asyncio.to_thread(produce, bootstrap, TOPIC, sent)


@asynccontextmanager
async def connected(lake: RunningBroker) -> AsyncIterator[Wire]:
    wire = await Wire.connect(lake.address.port)
    try:
        yield wire
    finally:
        await wire.close()


async def offset_at(wire: Wire, timestamp_ms: int) -> int:
    api = Asking(wire, list_offsets.API_KEY, 7)
    partition = api.part(
        "ListOffsetsPartition",
        partition_index=0,
        current_leader_epoch=-1,
        timestamp=timestamp_ms,
    )
    answer = await api.ask(
        "ListOffsetsRequest",
        replica_id=-1,
        isolation_level=0,
        topics=(api.part("ListOffsetsTopic", name=TOPIC, partitions=(partition,)),),
    )
    (found,) = answer.topics[0].partitions
    assert found.error_code is ErrorCode.none
    return int(found.offset)


async def answer_at(wire: Wire, offset: int) -> Any:
    await wire.send(fetch_request(wire, TOPIC, offset=offset))
    _, body = await wire.receive(fetch.API_KEY, VERSION)
    return body.responses[0].partitions[0]


async def test_a_time_is_found_though_its_record_goes_into_the_table_between_the_two_searches(
    tmp_path: Path,
) -> None:
    searches: list[int] = []
    plain = WalReader.offset_for_timestamp

    async def after_a_commit(
        reader: WalReader, partition: TopicPartition, timestamp_ms: int
    ) -> TimestampedOffset | None:
        # The table was searched already, and had nothing of that time.
        if not searches:
            await asyncio.to_thread(compact, tmp_path)
        searches.append(timestamp_ms)
        return await plain(reader, partition, timestamp_ms)

    async with embedded_lake(tmp_path) as lake:
        await lake.metadata.topics.create(TOPIC)
        await send(lake.bootstrap, 10)
        await asyncio.to_thread(compact, tmp_path)
        await send(lake.bootstrap, 5, LATER_MS)
        async with connected(lake) as wire:
            with patch.object(WalReader, "offset_for_timestamp", after_a_commit):
                assert await offset_at(wire, LATER_MS) == 10
            assert searches, "the record was in the WAL when it was asked for"
            assert await offset_at(wire, -3) == 10


async def test_a_search_for_a_time_ends_though_every_look_finds_the_table_further_on(
    tmp_path: Path,
) -> None:
    searches: list[int] = []
    plain = WalReader.offset_for_timestamp

    async with embedded_lake(tmp_path) as lake:

        async def after_a_commit(
            reader: WalReader, partition: TopicPartition, timestamp_ms: int
        ) -> TimestampedOffset | None:
            await send(lake.bootstrap, 1)
            await asyncio.to_thread(compact, tmp_path)
            searches.append(timestamp_ms)
            return await plain(reader, partition, timestamp_ms)

        await lake.metadata.topics.create(TOPIC)
        await send(lake.bootstrap, 10)
        async with connected(lake) as wire, asyncio.timeout(120):
            with patch.object(WalReader, "offset_for_timestamp", after_a_commit):
                assert await offset_at(wire, LATER_MS) == -1
    assert searches == [LATER_MS], "the table end moved, and one more look at the table was enough"


async def reading_after(
    work: Callable[[], Awaitable[object]], ask: Callable[[], Awaitable[Any]]
) -> Any:
    """An answer whose read of the table begins when the work is done."""
    plain = HistoryProcess.read

    async def read(
        history: HistoryProcess, topic: Topic, partition: int, offset: int, max_bytes: int
    ) -> Piece:
        await work()
        return await plain(history, topic, partition, offset, max_bytes)

    with patch.object(HistoryProcess, "read", read):
        return await ask()


async def test_rows_that_leave_while_they_are_fetched_are_out_of_range_and_not_skipped(
    tmp_path: Path,
) -> None:
    """Retention moves the log start and takes the rows; who asked is told, as by Kafka."""
    async with embedded_lake(tmp_path) as lake:
        topic = await lake.metadata.topics.create(TOPIC)
        await send(lake.bootstrap, 20)
        await asyncio.to_thread(compact, tmp_path)
        async with connected(lake) as wire:

            async def leave() -> None:
                place = TopicPartition(topic.id, 0)
                await lake.metadata.retention.delete_records(place, 12)
                await asyncio.to_thread(erase, tmp_path, "__offset < 12")

            answer = await reading_after(leave, lambda: answer_at(wire, 3))
            assert answer.error_code is ErrorCode.offset_out_of_range
            assert not answer.records
            answer = await answer_at(wire, 12)
            assert [r.offset for r in records_in(answer.records)] == list(range(12, 20))
            assert answer.log_start_offset == 12


async def test_rows_that_are_erased_while_they_are_fetched_are_a_lawful_hole(
    tmp_path: Path,
) -> None:
    """The log start does not move, so nothing is out of range."""
    async with embedded_lake(tmp_path) as lake:
        await lake.metadata.topics.create(TOPIC)
        await send(lake.bootstrap, 20)
        await asyncio.to_thread(compact, tmp_path)
        async with connected(lake) as wire:

            async def leave() -> None:
                await asyncio.to_thread(erase, tmp_path, "__offset < 12")

            answer = await reading_after(leave, lambda: answer_at(wire, 3))
            assert answer.error_code is ErrorCode.none
            assert [r.offset for r in records_in(answer.records)] == list(range(12, 20))


async def test_a_log_start_inside_the_table_hides_rows_and_keeps_them(tmp_path: Path) -> None:
    """Also when it had been beyond the table while its records were in the WAL."""
    async with embedded_lake(tmp_path) as lake:
        topic = await lake.metadata.topics.create(TOPIC)
        await send(lake.bootstrap, 10)
        await asyncio.to_thread(compact, tmp_path)
        await send(lake.bootstrap, 10)
        place = TopicPartition(topic.id, 0)
        async with connected(lake) as wire:
            for start in (5, 15):
                await lake.metadata.retention.delete_records(place, start)
                answer = await answer_at(wire, start - 1)
                assert answer.error_code is ErrorCode.offset_out_of_range
                assert await offset_at(wire, 0) == await offset_at(wire, -2) == start
            await asyncio.to_thread(compact, tmp_path)
            answer = await answer_at(wire, 15)
            kept = [r.offset for r in records_in(answer.records) if r.offset >= 15]
            assert kept == list(range(15, 20))
            assert (await answer_at(wire, 14)).error_code is ErrorCode.offset_out_of_range
            assert await offset_at(wire, 0) == await offset_at(wire, -2) == 15
    with closing(catalog_spec(tmp_path).open()) as catalog:
        rows = catalog.load_table(("streams", TOPIC)).scan().to_arrow()
    assert sorted(rows["__offset"].to_pylist()) == list(range(20))
