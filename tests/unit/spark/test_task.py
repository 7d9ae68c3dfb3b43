"""The task as a Spark worker calls it: slices in, outcomes out."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestream_spark.app import RunningBroker, wal_stores
from lakestream_spark.objectstore.keys import segment_key
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.spark.outcome import Kind, Outcome
from lakestream_spark.spark.plan import slices_of
from lakestream_spark.spark.slices import Slice
from lakestream_spark.spark.task import CompactTask
from lakestream_spark.table.rows import from_arrow
from tests.support.embedded import catalog_spec, embedded_lake, lake_settings
from tests.support.kafka import Sent, produce


def task_of(folder: Path) -> CompactTask:
    return CompactTask(stores=wal_stores(lake_settings(folder)), catalog=catalog_spec(folder))


def run(folder: Path, *slices: Slice) -> list[Outcome]:
    """The outcomes of one task."""
    return run_task(task_of(folder), *slices)


def run_task(task: CompactTask, *slices: Slice) -> list[Outcome]:
    batch = pa.RecordBatch.from_pylist([{"slice": piece.to_json()} for piece in slices])
    return [Outcome.of(row) for result in task(iter([batch])) for row in result.to_pylist()]


async def slices(lake: RunningBroker) -> list[Slice]:
    """Everything that is acknowledged and not in a table."""
    backlogs = await lake.metadata.backlog.pending()
    ranges = {topic_id: backlog.ranges for topic_id, backlog in backlogs.items()}
    return await slices_of(lake.metadata, await lake.metadata.tables.create_plan(ranges), 2**30)


def segment_file(folder: Path, piece: Slice) -> Path:
    return folder / segment_key(piece.extents[0].segment_id)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_of_a_stock_client_become_rows_in_offset_order(
    tmp_path: Path, codec: str
) -> None:
    sent = [Sent(b"k%d" % n, b"v" * n, [("h", None), ("h", b"")], n + 1) for n in range(50)]
    async with embedded_lake(tmp_path) as lake:
        await asyncio.to_thread(
            lambda: produce(lake.bootstrap, "orders", sent, **{"compression.type": codec})
        )
        (piece,) = await slices(lake)
    (outcome,) = await asyncio.to_thread(run, tmp_path, piece)
    file = outcome.file
    assert file is not None
    assert (outcome.kind, outcome.plan, outcome.range, file.rows) == (
        *(Kind.WRITTEN, piece.plan, piece.range, 50),
    )
    path = Path(file.path.removeprefix("file://"))
    assert path.stat().st_size == file.size
    records = [each.record for each in from_arrow(pq.read_table(path))]
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records] == [
        (n, s.timestamp_ms, s.key, s.value, ((b"h", None), (b"h", b""))) for n, s in enumerate(sent)
    ]


async def test_repeated_task_writes_a_file_of_its_own(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path) as lake:
        await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"v")])
        (piece,) = await slices(lake)
    files = [(await asyncio.to_thread(run, tmp_path, piece))[0].file for _ in range(2)]
    assert all(file is not None for file in files)
    assert files[0].path != files[1].path  # type: ignore[union-attr]


async def test_one_bad_slice_does_not_harm_the_others_of_its_task(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path) as lake:
        pieces = []
        for topic in ("damaged", "missing", "whole"):
            await asyncio.to_thread(produce, lake.bootstrap, topic, [Sent(None, b"v" * 100)])
        for piece in await slices(lake):
            pieces.append(piece)
            path = segment_file(tmp_path, piece)
            if piece.topic_name == "damaged":
                extent = piece.extents[0]
                spoiled = bytearray(path.read_bytes())
                spoiled[extent.position + extent.length - 1] ^= 1
                path.write_bytes(spoiled)
            elif piece.topic_name == "missing":
                path.unlink()
    outcomes = await asyncio.to_thread(run, tmp_path, *pieces)
    kinds = {piece.topic_name: each.kind for piece, each in zip(pieces, outcomes, strict=True)}
    assert kinds == {"damaged": Kind.CORRUPT, "missing": Kind.GONE, "whole": Kind.WRITTEN}
    told = {piece.topic_name: each.sentence for piece, each in zip(pieces, outcomes, strict=True)}
    places = {piece.topic_name: str(piece.extents[0].segment_id) for piece in pieces}
    assert "CRC" in told["damaged"]
    assert places["damaged"] in told["damaged"]
    assert places["missing"] in told["missing"]


@pytest.mark.parametrize("url", ["nonsense://nowhere", None])
async def test_a_store_that_cannot_be_opened_fails_its_own_slices_only(
    tmp_path: Path, url: str | None
) -> None:
    async with embedded_lake(tmp_path) as lake:
        await lake.metadata.topics.create("fast", config={"lakestream.profile": "latency"})
        for topic in ("fast", "slow"):
            await asyncio.to_thread(produce, lake.bootstrap, topic, [Sent(None, b"v")])
        pieces = await slices(lake)
    task = task_of(tmp_path)
    others = {profile: spec for profile, spec in task.stores.items() if profile != "latency"}
    stores = others if url is None else {**others, "latency": StoreSpec(url=url)}
    outcomes = await asyncio.to_thread(run_task, replace(task, stores=stores), *pieces)
    found = {piece.topic_name: each for piece, each in zip(pieces, outcomes, strict=True)}
    assert (found["fast"].kind, found["slow"].kind) == (Kind.FAILED, Kind.WRITTEN)
    assert ("nonsense" if url else "latency") in found["fast"].sentence


async def test_any_error_of_a_slice_is_an_outcome_that_names_it(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path) as lake:
        await asyncio.to_thread(produce, lake.bootstrap, "orders", [Sent(None, b"v")])
        (piece,) = await slices(lake)
    task = task_of(tmp_path)
    catalog = replace(task.catalog, properties={"py-io-impl": "nonsense.Nowhere"})
    (outcome,) = await asyncio.to_thread(run_task, replace(task, catalog=catalog), piece)
    assert outcome.kind is Kind.FAILED
    assert outcome.sentence.startswith("ValueError: ")
    assert "nonsense.Nowhere" in outcome.sentence
