"""The stream reader as PySpark 4.1 and 4.2 call it, without either of them in the way."""

import inspect
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from lakestream_spark import reading
from lakestream_spark.spark.reading.options import parse
from lakestream_spark.spark.reading.source import LakestreamStreamReader
from tests.support.reading import Lake, lake_in

pytestmark = [pytest.mark.spark, pytest.mark.long]
Offset = dict[str, Any]
CALLS: Final[dict[str, list[tuple[int, int]]]] = {
    "initialOffset": [(0, 0)],
    "latestOffset": [(0, 2)],
    "partitions": [(2, 2)],
    "read": [(1, 1)],
    "commit": [(1, 1)],
    "stop": [(0, 0)],
}
"""With how few and how many arguments PySpark 4.1 and 4.2 call each."""


class MaxRows(NamedTuple):
    """A limit as PySpark 4.2 passes it."""

    max_rows: int


class NoLimit(NamedTuple):
    """A limit that is none."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("lake")) as found:
        yield found


@pytest.fixture
def topic(lake: Lake) -> str:
    """Half of it in the table, half in the WAL."""
    name = f"t{uuid4().hex[:12]}"
    lake.create(name)
    lake.send(name, [b"v"] * 60)
    lake.commit()
    lake.send(name, [b"v"] * 60)
    return name


def reader(lake: Lake, topic: str, **more: str) -> LakestreamStreamReader:
    options = {"data": lake.data, "subscribe": topic, "startingOffsets": "earliest", **more}
    return LakestreamStreamReader(
        reading.installation(lake.data, None), parse(options, streaming=True)
    )


def at(offset: Offset) -> int:
    (topic,) = offset.values()
    return int(topic["offsets"]["0"])


def ranges(found: Any) -> list[tuple[int, int]]:
    return [(piece.first, piece.next) for task in found for piece in task.value]


@pytest.mark.parametrize("name", CALLS)
def test_every_method_takes_the_arguments_of_both_versions(name: str) -> None:
    signature = inspect.signature(getattr(LakestreamStreamReader, name))
    for fewest, most in CALLS[name]:
        for count in range(fewest, most + 1):
            signature.bind(*[object()] * (count + 1))


def test_nothing_that_this_pyspark_asks_for_is_missing() -> None:
    asked = {name for name in vars(DataSourceStreamReader) if not name.startswith("_")}
    assert asked <= set(dir(LakestreamStreamReader))
    assert set(CALLS) <= asked


def test_4_1_says_nothing_and_gets_capped_batches_one_after_the_other(
    lake: Lake, topic: str
) -> None:
    first = reader(lake, topic, maxOffsetsPerTrigger="50")
    start = first.initialOffset()
    seen = []
    for _ in range(2):
        end = first.latestOffset()
        seen += ranges(first.partitions(start, end))
        first.commit(end)
        start = end
    first.stop()
    # A restart: another process, which is told the last batch by an empty range first.
    again = reader(lake, topic, maxOffsetsPerTrigger="50")
    assert again.partitions(start, start) == []
    end = again.latestOffset()
    seen += ranges(again.partitions(start, end))
    assert at(again.latestOffset()) == 120
    again.stop()
    assert seen == [(0, 50), (50, 100), (100, 120)]


def test_4_2_says_where_it_is_and_how_much_it_wants(lake: Lake, topic: str) -> None:
    stream = reader(lake, topic, maxOffsetsPerTrigger="50")
    start = stream.initialOffset()
    assert at(stream.latestOffset(start, MaxRows(50))) == 50
    assert at(stream.latestOffset(stream.latestOffset(start, MaxRows(50)), MaxRows(1000))) == 120
    assert at(stream.latestOffset(start, NoLimit())) == 120
    assert at(stream.reportLatestOffset()) == 120
    stream.stop()


def test_4_2_ends_an_available_now_where_the_log_ended_when_it_began(
    lake: Lake, topic: str
) -> None:
    stream = reader(lake, topic)
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    lake.send(topic, [b"v"] * 10)
    half = stream.latestOffset(start, MaxRows(70))
    assert (at(half), at(stream.latestOffset(half, MaxRows(70)))) == (70, 120)
    assert at(stream.reportLatestOffset()) == 130
    stream.stop()
