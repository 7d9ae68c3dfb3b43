"""The cache of encoded blocks: bounded, and each block is made once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakestream_spark.history.blocks import Batch, Block, BlockCache, Source


def block(size: int) -> Block:
    return Block((Batch(0, 1, bytes(size), 1),), 0, 1)


def test_the_least_used_blocks_leave_when_the_bytes_are_more_than_their_bound() -> None:
    cache = BlockCache(100)
    for key in "abc":
        cache.get(key, lambda: block(40))
        cache.get("a", lambda: block(40))
        assert cache.held_bytes <= 100
    assert [cache.begin(key) for key in "abc"] == [False, True, False]
    cache.get("large", lambda: block(101))
    assert cache.held_bytes <= 100


def test_who_asks_while_a_block_is_made_waits_for_it() -> None:
    cache, begun, go_on = BlockCache(100), threading.Event(), threading.Event()
    made: list[int] = []

    def make() -> Block:
        made.append(1)
        begun.set()
        assert go_on.wait(60)
        return block(10)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.get, "a", make)
        assert begun.wait(60)
        others = [pool.submit(cache.get, "a", make) for _ in range(3)]
        assert not any(each.done() for each in others)
        go_on.set()
        sources = [each.result(60)[1] for each in (first, *others)]
    assert made == [1]
    assert sources[0] is Source.MADE
    assert set(sources[1:]) <= {Source.AWAITED, Source.KEPT}


def test_a_block_that_failed_is_tried_again_by_the_next() -> None:
    cache = BlockCache(100)

    def fail() -> Block:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        cache.get("a", fail)
    assert cache.get("a", lambda: block(10))[1] is Source.MADE
    assert cache.get("a", fail)[1] is Source.KEPT


def test_a_block_that_was_begun_is_waited_for_and_made_once() -> None:
    cache = BlockCache(100)
    assert cache.begin("a")
    assert not cache.begin("a")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.get, "a", lambda: block(1))
        cache.finish("a", lambda: block(10))
        found, source = waiting.result(60)
    assert len(found.batches[0].data) == 10
    assert source in (Source.AWAITED, Source.KEPT)
    assert not cache.begin("a")


def test_who_waits_for_a_block_that_failed_is_told_and_the_next_may_begin() -> None:
    cache = BlockCache(100)
    assert cache.begin("a")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.get, "a", lambda: block(1))
        while not waiting.running():
            pass
        cache.fail("a", OSError("no answer"))
        with pytest.raises(OSError, match="no answer"):
            waiting.result(60)
    assert cache.begin("a")
