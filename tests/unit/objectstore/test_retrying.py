import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from lakestream_spark.core.errors import NotFound, Unavailable
from lakestream_spark.core.retry import Backoff
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.objectstore.retrying import Retrying
from lakestream_spark.objectstore.store import Data, ObjectInfo
from tests.support.clock import SimulatedClock


class Failing(MemoryStore):
    """A memory store that is unavailable for its next calls."""

    failures = 0
    calls = 0

    def _maybe_fail(self) -> None:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise Unavailable("down")

    async def put(self, key: str, data: Data) -> None:
        self._maybe_fail()
        await super().put(key, data)

    async def get(self, key: str) -> bytes:
        self._maybe_fail()
        return await super().get(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self._maybe_fail()
        async for info in super().list(prefix):
            yield info
            self._maybe_fail()


async def test_repeats_a_call_until_the_store_is_back():
    store, clock = Failing(), SimulatedClock()
    retrying = Retrying(store, clock=clock, random=Random(1))
    store.failures = 5
    put = asyncio.create_task(retrying.put("k", b"1"))
    await clock.advance(10)
    assert put.done()
    await put
    assert store.calls == 6
    assert await retrying.get("k") == b"1"
    assert retrying.url == store.url


async def test_gives_up_when_the_time_is_over():
    store, clock = Failing(), SimulatedClock()
    retrying = Retrying(store, backoff=Backoff(total_s=3), clock=clock, random=Random(1))
    store.failures = 10_000
    put = asyncio.create_task(retrying.put("k", b"1"))
    await clock.advance(3)
    with pytest.raises(Unavailable):
        await put


async def test_does_not_repeat_what_cannot_get_better():
    store = Failing()
    with pytest.raises(NotFound):
        await Retrying(store, clock=SimulatedClock()).get("missing")
    assert store.calls == 1


async def test_a_listing_is_begun_again_until_it_shows_something():
    store, clock = Failing(), SimulatedClock()
    await store.put("k", b"1")
    store.failures = 2
    listing = asyncio.ensure_future(anext(Retrying(store, clock=clock).list("")))
    await clock.advance(5)
    assert (await listing).key == "k"


async def test_a_listing_that_breaks_in_the_middle_says_so():
    store = Failing()
    await store.put("a", b"1")
    await store.put("b", b"2")
    listing = Retrying(store, clock=SimulatedClock()).list("")
    await anext(listing)
    store.failures = 1
    with pytest.raises(Unavailable):
        await anext(listing)
