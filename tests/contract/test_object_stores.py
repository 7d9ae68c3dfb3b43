"""The sentences of the `ObjectStore` port, on memory, a local folder and a real S3 server."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from lakestream_spark.core.errors import Corrupt, NotFound, Rejected
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.store import ObjectStore
from tests.support.s3 import NEEDS_S3
from tests.support.s3 import s3_server as s3_server

_IMPLEMENTATIONS = ["memory", "local", pytest.param("s3", marks=NEEDS_S3)]


@pytest.fixture(params=_IMPLEMENTATIONS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    match request.param:
        case "memory":
            return open_store("memory://")
        case "local":
            return open_store((tmp_path / "not there yet" / "store").as_uri())
        case _:
            server = request.getfixturevalue("s3_server")
            return open_store(server.new_url(), server.options())


@pytest.mark.parametrize("size", [0, 1, 16_384, 9 * 1024 * 1024 + 1])
async def test_returns_the_bytes_that_were_put(store: ObjectStore, size: int):
    data = os.urandom(size)
    await store.put("a/b/c.seg", data)
    assert await store.get("a/b/c.seg") == data
    assert await store.head("a/b/c.seg") == size


async def test_takes_a_view_of_a_larger_buffer(store: ObjectStore):
    buffer = bytearray(b"<<payload>>")
    await store.put("view", memoryview(buffer)[2:9])
    buffer[:] = b"overwritten"
    assert await store.get("view") == b"payload"


async def test_putting_the_same_bytes_again_succeeds(store: ObjectStore):
    await store.put("k", b"same")
    await store.put("k", memoryview(b"same"))
    assert await store.get("k") == b"same"


@pytest.mark.parametrize("other", [b"else", b"longer than it was", b""])
async def test_never_replaces_an_object_by_other_bytes(store: ObjectStore, other: bytes):
    await store.put("k", b"mine")
    with pytest.raises(Corrupt, match="another object"):
        await store.put("k", other)
    assert await store.get("k") == b"mine"


async def test_one_of_many_writers_of_a_key_wins_and_the_others_are_told(store: ObjectStore):
    contents = [bytes([i]) * 50_000 for i in range(12)]
    results = await asyncio.gather(
        *(store.put("contested", data) for data in contents), return_exceptions=True
    )
    winners = [data for data, result in zip(contents, results, strict=True) if result is None]
    assert len(winners) == 1
    assert await store.get("contested") == winners[0]
    assert all(isinstance(result, Corrupt) for result in results if result is not None)


async def test_many_writers_of_the_same_bytes_all_succeed(store: ObjectStore):
    await asyncio.gather(*(store.put("agreed", b"x" * 50_000) for _ in range(12)))
    assert await store.head("agreed") == 50_000


async def test_a_missing_object_is_not_found(store: ObjectStore):
    await store.put("folder/object", b"1")
    for key in ("missing", "no/such/folder", "folder", "folder/object/below"):
        with pytest.raises(NotFound):
            await store.get(key)
        with pytest.raises(NotFound):
            await store.head(key)
        with pytest.raises(NotFound):
            await store.get_ranges(key, [0], [1])


async def test_ranges_come_back_in_the_order_asked(store: ObjectStore):
    data = os.urandom(4 * 1024 * 1024)
    await store.put("k", data)
    starts = [3_000_000, 0, 10, 5, 4_194_303, 7]
    lengths = [1_000, 10, 20, 10, 1, 0]
    found = await store.get_ranges("k", starts, lengths)
    assert found == [data[start : start + n] for start, n in zip(starts, lengths, strict=True)]


async def test_no_ranges_give_no_bytes(store: ObjectStore):
    await store.put("k", b"1")
    assert await store.get_ranges("k", [], []) == []


@pytest.mark.parametrize(("start", "length"), [(3, 3), (0, 6), (5, 1), (100, 1)])
async def test_a_range_beyond_the_end_is_corrupt(store: ObjectStore, start: int, length: int):
    await store.put("k", b"12345")
    with pytest.raises(Corrupt, match="shorter"):
        await store.get_ranges("k", [0, start], [1, length])


async def test_refuses_ranges_that_make_no_sense(store: ObjectStore):
    await store.put("k", b"12345")
    for starts, lengths in (([0], []), ([-1], [1]), ([0], [-1])):
        with pytest.raises(Rejected):
            await store.get_ranges("k", starts, lengths)


async def test_deletes_what_is_there_and_does_not_mind_the_rest(store: ObjectStore):
    await store.put("a/1", b"1")
    await store.put("a/2", b"2")
    await store.delete(["a/1", "a/never", "nowhere/x", "a/2/below"])
    await store.delete(["a/1"])
    await store.delete([])
    with pytest.raises(NotFound):
        await store.get("a/1")
    assert await store.get("a/2") == b"2"


async def test_a_deleted_key_can_be_created_again(store: ObjectStore):
    await store.put("k", b"old")
    await store.delete(["k"])
    await store.put("k", b"new")
    assert await store.get("k") == b"new"


async def test_lists_every_object_below_a_prefix_with_size_and_time(store: ObjectStore):
    before_ms = time.time_ns() // 1_000_000
    for key in ("a/1", "a/b/2", "a/b/c/3", "ab/4", "5"):
        await store.put(key, key.encode())
    everything = {info.key: info for info in [info async for info in store.list("")]}
    assert set(everything) == {"a/1", "a/b/2", "a/b/c/3", "ab/4", "5"}
    assert all(info.size == len(key) for key, info in everything.items())
    assert all(abs(info.modified_ms - before_ms) < 60_000 for info in everything.values())
    assert {info.key async for info in store.list("a/")} == {"a/1", "a/b/2", "a/b/c/3"}
    assert {info.key async for info in store.list("a/b/")} == {"a/b/2", "a/b/c/3"}
    assert [info async for info in store.list("nothing/here/")] == []


async def test_lists_and_deletes_more_objects_than_fit_a_page(store: ObjectStore):
    keys = {f"many/{i:05d}" for i in range(1_100)}
    for some in _chunks(sorted(keys), 50):
        await asyncio.gather(*(store.put(key, b"") for key in some))
    assert {info.key async for info in store.list("many/")} == keys
    await store.delete(sorted(keys))
    assert [info async for info in store.list("many/")] == []


async def test_objects_may_be_deleted_while_they_are_listed(store: ObjectStore):
    keys = {f"x/{i:03d}" for i in range(100)}
    await asyncio.gather(*(store.put(key, b"") for key in keys))
    seen = set()
    async for info in store.list("x/"):
        seen.add(info.key)
        await store.delete([info.key])
    assert seen == keys
    assert [info async for info in store.list("x/")] == []


async def test_a_listing_can_be_left_early(store: ObjectStore):
    await asyncio.gather(*(store.put(f"x/{i}", b"") for i in range(20)))
    listing = store.list("x/")
    assert (await anext(listing)).key.startswith("x/")


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".tmp-1", "a/.b", "a\0b"]
)
async def test_refuses_a_key_that_is_not_a_path_of_plain_components(store: ObjectStore, key: str):
    for call in (store.put(key, b""), store.get(key), store.head(key), store.delete([key])):
        with pytest.raises(Rejected):
            await call


@pytest.mark.parametrize("prefix", ["a", "/", "a//", "../", "a/.b/"])
async def test_refuses_a_prefix_of_half_a_component(store: ObjectStore, prefix: str):
    with pytest.raises(Rejected):
        await anext(store.list(prefix))


@pytest.mark.parametrize("kind", ["local", pytest.param("s3", marks=NEEDS_S3)])
async def test_keys_are_relative_to_the_place_in_the_url(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
):
    if kind == "local":
        outer, inner = open_store(tmp_path.as_uri()), open_store(f"{tmp_path.as_uri()}/in/side/")
    else:
        server = request.getfixturevalue("s3_server")
        place = server.new_url()
        outer, inner = (open_store(url, server.options()) for url in (place, f"{place}/in/side/"))
    await inner.put("k", b"1")
    assert [info.key async for info in inner.list("")] == ["k"]
    assert [info.key async for info in outer.list("")] == ["in/side/k"]
    assert await outer.get("in/side/k") == b"1"
    assert inner.url == f"{outer.url}/in/side"


def _chunks(items: list[str], size: int) -> list[list[str]]:
    return [items[i : i + size] for i in range(0, len(items), size)]
