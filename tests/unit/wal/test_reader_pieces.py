"""What a read hands on: views of the cached segment, or a copy where a view would hold too much."""

import asyncio

from tests.support.memory_log import memory_log, records

LOTS = 1 << 20


async def test_large_batches_are_handed_on_as_views_of_the_cached_segment() -> None:
    async with memory_log(cache_bytes=LOTS) as log:
        (p,) = await log.topic("t")
        await log.append(p, b"x" * 50_000)
        once = await log.reader.read(p, 0, LOTS)
        again = await log.reader.read(p, 0, LOTS)
    (view,) = [part for part in once.pieces.parts if isinstance(part, memoryview)]
    (same,) = [part for part in again.pieces.parts if isinstance(part, memoryview)]
    assert len(view) > 50_000
    assert view.obj is same.obj
    assert view.readonly
    assert records(once.data) == [(0, b"x" * 50_000)]


async def test_many_small_batches_are_one_piece() -> None:
    async with memory_log(cache_bytes=LOTS) as log:
        (p,) = await log.topic("t")
        await asyncio.gather(*(log.append(p, b"small") for _ in range(20)))
        result = await log.reader.read(p, 0, LOTS)
    assert len(result.pieces.parts) == 1
    assert records(result.data) == [(n, b"small") for n in range(20)]


async def test_a_small_share_of_a_large_segment_is_copied_and_does_not_keep_it_in_memory() -> None:
    async with memory_log(cache_bytes=LOTS) as log:
        (p,) = await log.topic("small")
        (other,) = await log.topic("large")
        await asyncio.gather(log.append(p, b"x" * 10_000), log.append(other, b"y" * 500_000))
        result = await log.reader.read(p, 0, LOTS)
    assert [type(part) for part in result.pieces.parts] == [bytes]
    assert records(result.data) == [(0, b"x" * 10_000)]


async def test_the_length_of_the_pieces_is_that_of_their_bytes() -> None:
    async with memory_log(cache_bytes=LOTS) as log:
        (p,) = await log.topic("t")
        for _ in range(3):
            await log.append(p, b"x" * 20_000)
        result = await log.reader.read(p, 1, LOTS)
        empty = await log.reader.read(p, 3, LOTS)
    assert len(result.pieces) == len(result.data) > 40_000
    assert not empty.pieces
    assert records(result.data) == [(1, b"x" * 20_000), (2, b"x" * 20_000)]
