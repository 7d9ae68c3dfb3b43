"""Values as JSON and as cells: nothing is lost on the way."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakestream_spark.cli.plain_values import plain, shown


@pytest.mark.parametrize(
    ("value", "as_json", "cell"),
    [
        (None, None, "null"),
        (True, True, "true"),
        (7, 7, "7"),
        ("text", "text", "text"),
        (b"text", "text", "text"),
        (b"\xff", {"base64": "/w=="}, "base64:/w=="),
        (Decimal("12"), 12, "12"),
        (Decimal("12.50"), 12.5, "12.50"),
        (Decimal("0.1234567890123456789"), "0.1234567890123456789", "0.1234567890123456789"),
        (float("nan"), "nan", "nan"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00+00:00", "2026-01-31 12:00:00"),
        (date(2026, 1, 31), "2026-01-31", "2026-01-31"),
        ([{"k": b"v"}], [{"k": "v"}], '[{"k": "v"}]'),
        ([("a", 1)], [["a", 1]], '[["a", 1]]'),
    ],
)
def test_a_value_is_shown_as_what_it_is(value: Any, as_json: Any, cell: str) -> None:
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == as_json
    assert shown(value) == cell
