"""What the chapters make of an answer, and the limits that they name."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pytest

from lakestream_spark.cli.demo import chapters
from lakestream_spark.cli.demo.chapters import across, asked, check_counts
from lakestream_spark.cli.demo.stage import Stage
from lakestream_spark.core.errors import Corrupt, Unavailable
from tests.support.embedded import embedded_lake, lake_settings

EUR = b'{"currency": "EUR", "total": 1.5}'


def answered(rows: list[tuple[int, int, bytes]], begins: dict[int, int]) -> list[dict[str, Any]]:
    """The answer over orders of (partition, offset, value)."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE orders (__partition INT, __offset BIGINT, __value BLOB)")
        for row in rows:
            connection.execute("INSERT INTO orders VALUES (?, ?, ?)", row)
        return connection.execute(asked(begins)).to_arrow_table().to_pylist()


def test_orders_of_this_run_are_counted_apart_from_older_ones():
    rows = answered([(0, 3, EUR), (0, 7, EUR), (1, 2, EUR), (2, 9, EUR)], {0: 7, 1: 2})
    assert check_counts(rows, 2) == 4
    with pytest.raises(Corrupt, match=r"records of this run \(expected=3, actual=2\)"):
        check_counts(rows, 3)


def test_older_orders_may_be_erased():
    assert check_counts(answered([(0, 100, EUR)], {0: 100}), 1) == 1


def test_an_order_that_is_there_twice_is_corrupt():
    rows = answered([(0, 7, EUR), (0, 7, EUR), (1, 7, EUR)], {0: 7})
    with pytest.raises(Corrupt, match=r"not each record once \(rows=3, offsets=2\)"):
        check_counts(rows, 1)


def test_an_empty_answer_misses_what_was_acknowledged():
    assert check_counts(answered([], {}), 0) == 0
    with pytest.raises(Corrupt, match="misses acknowledged"):
        check_counts(answered([], {0: 1}), 1)


def test_an_order_without_a_currency_or_a_total_is_shown_as_null():
    rows = answered([(0, 1, EUR), (0, 2, EUR), (0, 3, b"{}")], {0: 1})
    assert across(rows) == [
        "currency        EUR       NULL",
        "orders            2          1",
        "revenue        3.00       NULL",
    ]
    assert rows[0]["revenue"] == Decimal("3.00")


async def test_the_limit_of_a_commit_that_does_not_come_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(chapters, "_COMMITTED_S", 1.2)
    async with embedded_lake(tmp_path) as broker:
        await broker.metadata.topics.create("orders")
        stage = quiet_stage(settings=lake_settings(tmp_path))
        with pytest.raises(Unavailable, match=r"no row of orders was committed within 1 s: see"):
            await chapters._in_table(stage, "orders")


def quiet_stage(**parts: Any) -> Stage:
    """On which nothing goes wrong but time."""
    nothing = SimpleNamespace(
        check=lambda: None, troubles=list, beat=lambda _: None, at_s=0.0, log="demo.log"
    )
    topics = {"orders": SimpleNamespace(in_table=0, records=0)}
    names = ("settings", "clockwork", "screen", "platform", "listening", "watch", "traffic")
    return Stage(**cast(Any, dict.fromkeys(names, nothing) | {"before": topics} | parts))
