"""Rows found by their times."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.kafka.records import Record, TimestampedOffset
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableState
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.rows import Row
from tests.support.history import LocalHistory, append_rows
from tests.support.tables import TableFiles, rows

BEYOND = 2**62
"""No timestamp of a column holds so many milliseconds."""


@pytest.mark.parametrize(("timestamp", "expected"), [(0, 0), (2, 2), (5, None), (2**63 - 1, None)])
def test_search_by_time_finds_the_first_row_at_or_after(
    tables: StreamCatalog,
    topic: Topic,
    files: TableFiles,
    history: LocalHistory,
    timestamp: int,
    expected: int | None,
) -> None:
    append_rows(tables, files, rows(0, [b"a", b"b", b"c"]), start=0, end=3)
    found = history.at_time(topic, timestamp, range(3))
    assert found == (None if expected is None else TimestampedOffset(expected, expected))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    times=st.lists(
        st.lists(st.sampled_from([0, 1, 5, 7, -3, BEYOND, -BEYOND]), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    wanted=st.sampled_from([0, 1, 2, 6, 8, BEYOND, BEYOND + 1]),
    start=st.integers(0, 3),
)
def test_answers_are_those_of_looking_at_every_row(
    tables: StreamCatalog,
    files: TableFiles,
    topic: Topic,
    history: LocalHistory,
    times: list[list[int]],
    wanted: int,
    start: int,
) -> None:
    first = next_offset(tables, files)
    sent: list[Record] = []
    for own in times:
        begin = first + len(sent)
        made = [Record(begin + n, time, None, None) for n, time in enumerate(own)]
        append_rows(
            tables,
            files,
            [Row(record, append_time=False) for record in made],
            start=begin,
            end=begin + len(made),
        )
        sent += made
    looked_at = [record for record in sent if record.offset >= first + start]
    if not looked_at:
        return
    asked = range(first + start, first + len(sent))
    places = [TimestampedOffset(record.offset, record.timestamp) for record in looked_at]
    late = [place for place in places if place.timestamp >= wanted]
    assert history.at_time(topic, wanted, asked) == next(iter(late), None)
    newest = max(place.timestamp for place in places)
    expected = next(place for place in places if place.timestamp == newest)
    assert history.newest(topic, asked) == expected


def test_rows_that_went_to_the_table_a_moment_ago_are_found(
    tables: StreamCatalog, topic: Topic, files: TableFiles, history: LocalHistory
) -> None:
    append_rows(tables, files, rows(0, [b"a"]), start=0, end=1)
    assert history.newest(topic, range(1)) == TimestampedOffset(0, 0)
    append_rows(tables, files, rows(1, [b"b"]), start=1, end=2)
    assert history.at_time(topic, 1, range(2)) == TimestampedOffset(1, 1)
    append_rows(tables, files, rows(2, [b"c"]), start=2, end=3)
    assert history.newest(topic, range(3)) == TimestampedOffset(2, 2)
    with pytest.raises(Unavailable):
        history.newest(topic, range(4))


def next_offset(tables: StreamCatalog, files: TableFiles) -> int:
    table = tables.load(files.layout)
    return 0 if table is None else TableState.of(table).ends[0]
