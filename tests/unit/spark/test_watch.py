"""A query that dies is started again, soon at first, later if it dies again and again, and so is
one whose start fails; and how long a drain waits for what does not move."""

from random import Random
from threading import Event
from typing import Any, cast

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.spark.watch import Deaths, _Patience, _started, watch
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


class Starts:
    """A Spark whose first few starts of a query fail."""

    def __init__(self, failing: int) -> None:
        self.failing = failing
        self.tried = 0

    def __call__(self) -> Any:
        self.tried += 1
        if self.tried <= self.failing:
            raise RuntimeError("a Python process of Spark's is gone")
        return "query"


class NoPause(Random):
    def uniform(self, a: float, b: float) -> float:
        return 0.0


def test_a_start_that_fails_is_tried_again_but_not_for_ever() -> None:
    deaths = Deaths(SimulatedClock(), NoPause())
    passing, lasting = Starts(failing=4), Starts(failing=99)
    started: Any = _started(passing, deaths, Event())
    assert started == "query"
    with pytest.raises(RuntimeError, match="is gone"):
        _started(lasting, deaths, Event())
    assert (passing.tried, lasting.tried) == (5, 5)


def test_who_is_told_to_stop_does_not_try_again() -> None:
    stop, failing = Event(), Starts(failing=99)
    stop.set()
    assert _started(failing, Deaths(SimulatedClock(), NoPause()), stop) is None
    assert failing.tried == 1


class Drained:
    """A driver that finds nothing to do."""

    has_plan = False
    is_drained = True
    left_behind: frozenset[str] = frozenset()
    progress = 0


def test_a_drain_without_anything_to_move_starts_no_query() -> None:
    starts = Starts(failing=0)
    watch(starts, cast("Any", Drained()), Event(), drain=True)
    assert starts.tried == 0


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
