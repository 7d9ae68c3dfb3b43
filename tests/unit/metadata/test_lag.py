"""The lag of a group, by the function and by SQL."""

import sqlite3
from contextlib import closing

import pytest

from lakestream_spark.metadata.lag import LAG_SQL, lag_of


@pytest.mark.parametrize(
    ("committed", "log_start", "end", "lag"),
    [(4, 0, 10, 6), (10, 0, 10, 0), (12, 0, 10, 0), (2, 7, 10, 3), (7, 7, 7, 0), (2, 7, 7, 0)],
)
def test_the_function_and_the_expression_say_the_same(
    committed: int, log_start: int, end: int, lag: int
) -> None:
    asked = (
        f"SELECT {LAG_SQL} FROM (SELECT ? AS committed_offset) o, "
        "(SELECT ? AS log_start, ? AS next_offset) p"
    )
    with closing(sqlite3.connect(":memory:")) as database:
        (found,) = database.execute(asked, (committed, log_start, end)).fetchone()
    assert found == lag_of(committed=committed, log_start=log_start, end=end) == lag
