"""Bytes in flight: bounded, first come first served, never stuck."""

import asyncio

import pytest

from lakestream_spark.core.errors import Overloaded
from lakestream_spark.wal.budget import ByteBudget


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_callers_beyond_the_bound_wait_and_are_let_in_in_order() -> None:
    budget = ByteBudget(10)
    let_in: list[int] = []

    async def want(name: int, size: int) -> None:
        await budget.acquire(size, within_s=600)
        let_in.append(name)

    tasks = [asyncio.create_task(want(n, 6)) for n in range(3)]
    await settle()
    assert let_in == [0]
    budget.release(6)
    await settle()
    assert let_in == [0, 1]
    budget.release(6)
    await asyncio.gather(*tasks)
    assert let_in == [0, 1, 2]


async def test_a_newcomer_does_not_overtake_one_that_was_just_let_in() -> None:
    budget = ByteBudget(10)
    assert budget.try_acquire(10)
    waiter = asyncio.create_task(budget.acquire(4, within_s=600))
    await asyncio.sleep(0)
    budget.release(10)
    assert not budget.try_acquire(4)
    await waiter
    assert budget.try_acquire(4)


async def test_more_than_the_whole_budget_is_let_in_alone() -> None:
    budget = ByteBudget(10)
    assert budget.try_acquire(100)
    assert not budget.try_acquire(1)
    budget.release(100)
    assert budget.try_acquire(1)


async def test_waiting_too_long_is_an_overload_and_leaves_no_trace() -> None:
    budget = ByteBudget(10)
    assert budget.try_acquire(10)
    with pytest.raises(Overloaded, match="bound=10"):
        await budget.acquire(1, within_s=0.01)
    budget.release(10)
    assert (budget.used, budget.waiting) == (0, 0)


@pytest.mark.parametrize("granted_first", [True, False])
async def test_a_cancelled_caller_gives_its_turn_back(granted_first: bool) -> None:
    budget = ByteBudget(10)
    assert budget.try_acquire(10)
    waiter = asyncio.create_task(budget.acquire(5, within_s=600))
    behind = asyncio.create_task(budget.acquire(10, within_s=600))
    await asyncio.sleep(0)
    if granted_first:
        budget.release(10)
        waiter.cancel()
    else:
        waiter.cancel()
        await asyncio.sleep(0)
        budget.release(10)
    await asyncio.wait_for(behind, 60)
    assert waiter.cancelled()
    assert budget.used == 10
