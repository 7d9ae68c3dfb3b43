"""What a task reads of the WAL, without Spark."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.settings.installation import installation_of
from lakestream_spark.spark.reading import rows as module
from lakestream_spark.spark.reading.pieces import Piece
from lakestream_spark.spark.reading.rows import RowReader
from lakestream_spark.table.arrow_rows import Rows, rows_of
from tests.support.embedded import embedded_lake
from tests.support.kafka import Sent, produce
from tests.support.lake_place import Place

BATCHES = 6
VALUE = bytes(100_000)


@pytest.fixture
def topic_id(tmp_path: Path) -> TopicId:
    """A topic whose batches are a hundred times as large as they are stored."""

    async def sent() -> TopicId:
        async with embedded_lake(tmp_path) as lake:
            topic = await lake.metadata.topics.create("orders")
            for _ in range(BATCHES):
                records = [Sent(None, VALUE) for _ in range(3)]
                await asyncio.to_thread(
                    produce, lake.bootstrap, "orders", records, **{"compression.type": "zstd"}
                )
            return topic.id

    return asyncio.run(sent())


def test_what_is_decoded_is_handed_on_before_more_is(
    tmp_path: Path, topic_id: TopicId, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def noted(partition: int, chunks: Iterable[Chunk]) -> Iterator[Rows]:
        for each in rows_of(partition, chunks, piece_bytes=len(VALUE)):
            decoded.append(len(each.table))
            yield each

    monkeypatch.setattr(module, "rows_of", noted)
    reader = RowReader(installation=installation_of(Place(data=str(tmp_path)).settings))
    read: list[int] = []
    for batch in reader.read([Piece(topic_id, "orders", 0, 1, 3 * BATCHES - 1, 0)]):
        read += batch["__offset"].to_pylist()
        assert sum(decoded) - len(read) <= 3, "those of one batch, and no more"
    assert read == list(range(1, 3 * BATCHES - 1))
    assert len(decoded) == BATCHES
