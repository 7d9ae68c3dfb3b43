"""A segment that failed is told by what has to be done about it."""

import logging
from unittest.mock import create_autospec

import pytest

from lakestream_spark.core.errors import Fenced, Unavailable
from lakestream_spark.ingress.tail import TailWatch
from lakestream_spark.ingress.wal_events import WalEvents


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Fenced("the WAL writer's epoch is over"), logging.WARNING),
        (Unavailable("the store does not answer"), logging.ERROR),
    ],
    ids=["the others took the broker for dead, and serve", "somebody has to look"],
)
def test_a_failed_segment_is_an_error_unless_the_broker_lost_its_place(
    error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    WalEvents(create_autospec(TailWatch)).failed("cost", error)
    (record,) = caplog.records
    assert record.levelno == level
    assert "a WAL segment failed" in record.getMessage()
