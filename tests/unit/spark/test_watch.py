"""A query that dies is started again, soon at first, later if it dies again and again; and how long
a drain waits for what does not move."""

from random import Random
from typing import Any, cast

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.spark.watch import Deaths, _Patience
from tests.support.clock import SimulatedClock


class Longest(Random):
    """Always the longest pause that is allowed."""

    def uniform(self, a: float, b: float) -> float:
        return b


async def test_pauses_grow_with_deaths_in_a_row_and_a_long_good_life_forgets_them() -> None:
    clock = SimulatedClock()
    deaths = Deaths(clock, Longest())
    pauses = []
    for life_s in (0.1, 1, 2, 3, 61, 1):
        deaths.born()
        await clock.advance(life_s)
        pauses.append(deaths.pause_s())
    assert pauses == [1, 2, 4, 8, 1, 2]


class Watched:
    """What a drain's patience sees of the driver."""

    def __init__(self) -> None:
        self.left_behind = frozenset({"orders"})
        self.progress: object = 0


async def test_a_drain_is_patient_while_a_table_end_moves_whoever_moves_it() -> None:
    clock, driver = SimulatedClock(), Watched()
    patience = _Patience(cast("Any", driver), clock)
    for moved in range(5):
        driver.progress = moved
        assert not patience.is_over()
        await clock.advance(59.0)
        assert not patience.is_over()
    await clock.advance(1.0)
    with pytest.raises(Unavailable, match="could not be moved"):
        patience.is_over()
    driver.left_behind = frozenset()
    assert patience.is_over()
