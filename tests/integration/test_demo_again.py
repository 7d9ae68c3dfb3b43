"""A second `make run` on data from which rows were erased: what the chapters ask still holds."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from lakestream_spark.cli.demo.chapters import queried
from lakestream_spark.cli.demo.replay import in_tables, replay
from lakestream_spark.cli.demo.shop import ORDERS
from lakestream_spark.cli.demo.stage import Stage
from lakestream_spark.cli.demo.traffic import Place, digest
from lakestream_spark.core.errors import Corrupt, Unavailable
from tests.compat.lakes import Lake, running_lake
from tests.support.embedded import lake_settings

BEFORE, ALL = 20, 30
"""Offsets below the first are from before, those up to the second are of this run."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """All orders are in the table."""
    with running_lake(tmp_path) as lake:
        producer = Producer({"bootstrap.servers": lake.cluster.bootstrap})
        for offset in range(ALL):
            producer.produce(ORDERS, value(offset), key=b"k", partition=0)
        assert producer.flush(60) == 0
        lake._drain()
        yield lake


def value(offset: int) -> bytes:
    """The first order says nothing of its currency."""
    return json.dumps({"total": offset} | ({"currency": "EUR"} if offset else {})).encode()


OWN = {Place(ORDERS, 0, offset): digest(b"k", value(offset), []) for offset in range(BEFORE, ALL)}


def quickly() -> Callable[[], None]:
    """A check that gives up after a while."""
    left = iter(range(100))

    def check() -> None:
        if next(left, None) is None:
            raise Unavailable("the replay did not come to its end")

    return check


def replayed(lake: Lake, own: dict[Place, bytes]) -> tuple[int, int]:
    wanted = in_tables(lake_settings(lake.folder), (ORDERS,))
    found = replay(lake.cluster.bootstrap, wanted, own, quickly())
    return found.records, found.compared


def stage(lake: Lake) -> Stage:
    """What the chapter on SQL looks at."""
    traffic = SimpleNamespace(
        acknowledged=Counter({ORDERS: len(OWN)}), begins={(ORDERS, 0): BEFORE}
    )
    return cast(Any, SimpleNamespace(settings=lake_settings(lake.folder), traffic=traffic))


def test_what_was_erased_before_this_run_is_no_reason_to_fail(lake: Lake):
    lake.erase(ORDERS, [3, *range(7, 12)])
    assert replayed(lake, OWN) == (ALL - 6, len(OWN))
    told = queried(stage(lake))
    assert f"{ALL - 6} orders, each once" in told.text
    assert any("NULL" in line for line in told.details)


def test_a_replay_ends_where_the_last_offsets_of_the_table_were_erased(lake: Lake):
    lake.erase(ORDERS, [ALL - 1, ALL - 2])
    own = {place: found for place, found in OWN.items() if place.offset < ALL - 2}
    assert replayed(lake, own) == (ALL - 2, len(own))


def test_a_record_of_this_run_that_is_gone_is_corrupt(lake: Lake):
    lake.erase(ORDERS, [ALL - 1])
    with pytest.raises(Corrupt, match="a record that was sent did not come back"):
        replayed(lake, OWN)
    with pytest.raises(Corrupt, match="SQL misses acknowledged records of this run"):
        queried(stage(lake))
