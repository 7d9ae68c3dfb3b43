"""When a consumer that hears nothing gives up, and when it waits on."""

import json
from itertools import count

import pytest

from lakestream_spark.cli.silence import Silence
from lakestream_spark.core.errors import Unavailable

_ANSWERS = count(1)


def wait(silence: Silence, seconds: int, *, answers: bool) -> None:
    """Second by second, as a consumer does that is told each second how it is."""
    for _ in range(seconds):
        silence.statistics(json.dumps({"rx": next(_ANSWERS) if answers else 7}))
        silence.waited(1.0)


def wait_for_the_first_of_two(silence: Silence) -> None:
    for _ in range(10):
        silence.expect([0])
        wait(silence, 1, answers=True)


def test_a_partition_at_its_end_may_be_silent_for_ever() -> None:
    silence = Silence(5.0)
    silence.expect([0])
    silence.at_end(0)
    wait(silence, 1000, answers=True)


def test_brokers_that_answer_nothing_are_given_up() -> None:
    silence = Silence(5.0)
    with pytest.raises(Unavailable, match="no broker has answered for 5 s"):
        wait(silence, 10, answers=False)


def test_a_partition_that_gives_nothing_before_its_end_is_given_up_while_others_go_on() -> None:
    silence = Silence(5.0)
    silence.expect([0, 1])
    with pytest.raises(Unavailable, match="partition 1 is not at its end, and the brokers have gi"):
        wait_for_the_first_of_two(silence)


def test_a_partition_that_gives_now_and_then_is_waited_for() -> None:
    silence = Silence(5.0)
    for _ in range(100):
        silence.expect([0])
        wait(silence, 4, answers=True)


def test_time_in_which_nobody_waited_does_not_count() -> None:
    silence = Silence(5.0)
    silence.expect([0])
    for _ in range(1000):
        silence.waited(0.001)
