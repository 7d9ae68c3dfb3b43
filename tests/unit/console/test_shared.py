"""One answer for all who ask at about the same time."""

import asyncio

import pytest

from lakestream_spark.console.shared import Shared
from lakestream_spark.core.errors import Unavailable
from tests.support.clock import SimulatedClock


async def test_many_who_ask_share_one_question_until_its_answer_is_old() -> None:
    clock, asked = SimulatedClock(), 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return asked

    shared = Shared(ask, clock, fresh_s=1.0, within_s=60.0, what="store")
    assert await asyncio.gather(*(shared.get() for _ in range(50))) == [1] * 50
    assert await shared.get() == 1
    await clock.advance(1.0)
    assert await shared.get() == 2


async def test_a_store_that_hangs_costs_a_moment_and_then_it_is_asked_again() -> None:
    clock, answers = SimulatedClock(), asyncio.Event()

    async def ask() -> str:
        await answers.wait()
        return "there"

    shared = Shared(ask, clock, fresh_s=1.0, within_s=0.01, what="store")
    with pytest.raises(Unavailable, match="the store does not answer within 0 s"):
        await shared.get()
    answers.set()
    await clock.advance(1.0)
    assert await shared.get() == "there"


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    clock, answers = SimulatedClock(), asyncio.Event()

    async def ask() -> str:
        await answers.wait()
        return "there"

    shared = Shared(ask, clock, fresh_s=1.0, within_s=60.0, what="store")
    gone, stays = (asyncio.create_task(shared.get()) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    answers.set()
    assert await stays == "there"
