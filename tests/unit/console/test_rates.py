"""Rates from high watermarks."""

from uuid import UUID

from lakestream_spark.console.rates import Rate, Rates
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.overview import Arrived, PartitionNow
from lakestream_spark.wal.ports import PartitionEnds

ORDERS = TopicId(UUID(int=1))


def at(*ends: int) -> list[PartitionNow]:
    return [
        PartitionNow(n, TopicPartition(ORDERS, n), PartitionEnds(0, 0, end, end))
        for n, end in enumerate(ends)
    ]


def test_the_first_look_knows_no_rate() -> None:
    rates = Rates()
    assert rates.moved(1.0, at(5)) == {}
    assert rates.take(1.0, at(5), {}) == {}


def test_a_rate_is_what_came_over_the_seconds_since() -> None:
    rates = Rates()
    rates.take(0.0, at(5, 5), {})
    assert rates.moved(2.0, at(15, 5)) == {0: 5}
    assert rates.take(2.0, at(15, 5), {0: Arrived(10, 1000)}) == {ORDERS: Rate(5.0, 500.0)}
    assert rates.moved(4.0, at(15, 25)) == {1: 5}
    assert rates.take(4.0, at(15, 25), {1: Arrived(20, 4000)}) == {ORDERS: Rate(7.5, 1250.0)}


def test_what_went_to_the_table_meanwhile_is_as_large_as_the_rest() -> None:
    rates = Rates()
    rates.take(0.0, at(0), {})
    assert rates.take(1.0, at(100), {0: Arrived(10, 500)}) == {ORDERS: Rate(100.0, 5000.0)}
    assert rates.take(2.0, at(200), {0: Arrived(0, 0)}) == {ORDERS: Rate(100.0, 5000.0)}


def test_seconds_long_ago_do_not_count() -> None:
    rates = Rates()
    rates.take(0.0, at(0), {})
    assert rates.take(1.0, at(100), {0: Arrived(100, 100)}) == {ORDERS: Rate(100.0, 100.0)}
    for second in range(2, 20):
        rates.moved(float(second), at(100))
        rates.take(float(second), at(100), {})
    assert rates.take(20.0, at(100), {}) == {ORDERS: Rate(0.0, 0.0)}


def test_after_a_pause_it_begins_anew() -> None:
    rates = Rates()
    rates.take(0.0, at(0), {})
    assert rates.moved(60.0, at(1000)) == {}
    assert rates.take(60.0, at(1000), {}) == {}
    assert rates.take(61.0, at(1000), {}) == {ORDERS: Rate(0.0, 0.0)}


def test_a_topic_that_came_later_has_a_rate_from_its_second_look_on() -> None:
    rates = Rates()
    rates.take(0.0, [], {})
    assert rates.take(1.0, at(7), {}) == {}
    assert rates.take(2.0, at(9), {0: Arrived(2, 20)}) == {ORDERS: Rate(2.0, 20.0)}
