"""A query that dies is started again: soon at first, later if it dies again and again."""

from random import Random

from lakestream_spark.spark.watch import Deaths
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
